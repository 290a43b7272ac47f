"""A child process that answers many calls, one after the other: where foreign native code lives.

It may crash, hang or end in any of them: that call fails, with the name of the native function that it was in, and
so do all later ones. Both processes have a file without a name, for what is too large for a pipe; it is gone with
them. The child ends when this process does, however that ends.
"""

from __future__ import annotations

import gc
import json
import logging
import mmap
import os
import select
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, TypeAlias

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.child import error_message, load_function, raise_error
from litert.host.child_end import ChildEndedError
from litert.host.child_process import ChildProcess, become_child, set_alarm

FILE_START = 4096
"""Where the shared file is free: what is before has the name of the native function that is running."""

Handlers: TypeAlias = Mapping[str, Callable[[Any], object]]
"""What the child answers each call with, by the call's name: JSON in, JSON out."""

_EXIT_S = 1

_logger = logging.getLogger(__name__)


class Service:
    """A running child; a context manager that ends it.

    Attributes:
      subject: who it is, for messages.
      fd: of the shared file, which both read and write from `FILE_START` on.
    """

    def __init__(self, target: str, *, timeout_s: float, subject: str, where: str) -> None:
        """Starts the child, and does not wait for it.

        Args:
          target: `package.module:function`, which gets the shared file's descriptor and returns `Handlers`.
          timeout_s: for each call.
          subject: who failed, for messages: "the compiler plugin libX.so".
          where: what errors say under `where`.

        Raises:
          LiteRtError: DYNAMIC_LOADING, if it cannot be started; FILE_IO, if there is no place for the file.
        """
        self.subject = subject
        import tempfile  # here: the child needs none

        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._end_error: ChildEndedError | None = None
        self._begun = b""
        try:
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (owned; closed by close)
            os.ftruncate(file.fileno(), FILE_START)
            page = mmap.mmap(file.fileno(), FILE_START)
        except OSError as error:
            raise LiteRtError(Status.FILE_IO, f"no temporary file: {error}", where) from error
        self.fd = file.fileno()
        self._running = _Running(page)
        self._child = ChildProcess(
            "litert.host.service:serve",
            [target, str(self.fd), str(_logger.getEffectiveLevel())],
            subject=subject,
            where=where,
            doing=self._running.describe,
            shared=[self.fd],
        )
        self._finalizer = weakref.finalize(self, _clean_up, os.getpid(), self._child, file, page)

    def begin(self, call: str, argument: object = None) -> None:
        """Has the child begin with its first call, a short one; `ask` with the same gets the answer."""
        self._begun = self._request(call, argument)
        self._child.send(self._begun)

    def ask(self, call: str, argument: object = None) -> Any:
        """Has the child answer one call.

        Raises:
          ChildEndedError: RUNTIME_FAILURE or TIMEOUT_EXPIRED, in this call or in an earlier one.
          LiteRtError: what the call raised; what the child printed meanwhile is in its text.
        """
        with self._lock:
            if self._end_error is not None:
                raise self._end_error
            self._running.call = call
            try:
                return self._ask(call, argument)
            except ChildEndedError as error:
                self._end_error = error
                self._finalizer()
                raise
            except LiteRtError:  # the child is as well as before
                raise
            except BaseException:  # Ctrl-C: who knows where the child is
                self._end_error = ChildEndedError(
                    Status.CANCELLED, f"{self.subject} was stopped in {call}"
                )
                self._finalizer()
                raise

    def close(self) -> None:
        """Lets the child end; one that does not is killed."""
        with self._lock:
            if self._end_error is None:
                self._end_error = ChildEndedError(
                    Status.RUNTIME_FAILURE, f"{self.subject} is closed"
                )
                self._child.let_end()
                self._finalizer()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, call: str, argument: object) -> Any:
        child = self._child
        request = self._request(call, argument)
        if self._begun:
            assert request == self._begun
            self._begun = request = b""
        child.set_time_limit(self._timeout_s)
        for line in child.lines(request, is_last=False):
            message = json.loads(line)
            if "log" in message:
                name, level, text = message["log"]
                logging.getLogger(name).log(level, "%s", text)
                continue
            said = child.said()
            try:
                raise_error(message)
            except LiteRtError as error:
                if not said or error.status is Status.UNSUPPORTED:  # a refusal is an answer
                    raise
                what = f"{error.what}; it printed:\n{said}"
                raise LiteRtError(error.status, what, error.where, error.hint) from None
            if said:
                _logger.info("%s printed in %s:\n%s", self.subject, call, said)
            return message["answer"]
        raise child.early_end()

    def _request(self, call: str, argument: object) -> bytes:
        request = {"call": call, "argument": argument, "timeout_s": self._timeout_s}
        return json.dumps(request).encode() + b"\n"


class _Running:
    """What the child does at present: a call, and perhaps a native function in it."""

    def __init__(self, page: mmap.mmap) -> None:
        self.call = ""
        self._page = page

    def describe(self) -> str:
        size = self._page[0]
        return f" in {self._page[1 : 1 + size].decode(errors='replace') if size else self.call}"


def serve(target: str, fd: str, log_level: str) -> None:
    """The child's side: reads a line for each call, and writes one for each answer."""
    gc.set_threshold(100_000)  # imports and models make many objects, and no garbage
    channel = _Channel(become_child())
    logging.basicConfig(format="%(message)s", level=int(log_level), handlers=[channel])
    _Call.page = mmap.mmap(int(fd), FILE_START)
    is_busy = threading.Event()
    threading.Thread(target=_end_with_parent, args=[is_busy], daemon=True).start()
    handlers: Handlers = {}
    for line in sys.stdin.buffer:
        is_busy.set()
        request = json.loads(line)
        set_alarm(request["timeout_s"])
        try:
            handlers = handlers or load_function(target)(int(fd))
            answer: dict[str, object] = {"answer": handlers[request["call"]](request["argument"])}
        except Exception as error:
            answer = error_message(error, f"{target}, {request['call']}")
        set_alarm(0)
        is_busy.clear()
        channel.say(answer)
    gc.freeze()  # the collections at exit find nothing to do
    set_alarm(_EXIT_S)  # what native code does at exit may hang as well


@contextmanager
def native_call(name: str) -> Iterator[None]:
    """In the child: says what native function is running, should it be the last; elsewhere nothing."""
    page = _Call.page
    if page is None:
        yield
        return
    data = name.encode()[:255]
    page[: 1 + len(data)] = bytes([len(data)]) + data
    try:
        yield
    finally:
        page[0] = 0


class _Call:
    """In the child: the page of the shared file that has the running native function's name."""

    page: mmap.mmap | None = None


class _Channel(logging.Handler):
    """In the child: answers, and log records of any thread, each a line."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self._stream = stream
        self._speaking = threading.RLock()

    def say(self, message: Mapping[str, object]) -> None:
        with self._speaking:
            print(json.dumps(message), file=self._stream, flush=True)

    def emit(self, record: logging.LogRecord) -> None:
        self.say({"log": [record.name, record.levelno, self.format(record)]})


def _end_with_parent(is_busy: threading.Event) -> None:
    """In the child: a thread that waits for the parent's end, which an idle child sees by itself."""
    poll = select.poll()
    poll.register(0, 0)  # hang-ups are always reported
    poll.poll()
    if is_busy.is_set():
        if os.getpgrp() == os.getpid():  # with the children that native code has started
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def _clean_up(owner: int, child: ChildProcess, file: IO[bytes], page: mmap.mmap) -> None:
    """Ends the child, whoever forgot it; a fork of this process leaves it alone."""
    if os.getpid() == owner:
        child.end()
    page.close()
    file.close()
