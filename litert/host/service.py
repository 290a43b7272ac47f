"""A child process for untrusted native code, which handles many calls one after another.

If the child crashes, hangs or ends in a call, the call fails with an error that contains the name of the running
native function. All later calls fail, too. Both processes share an unnamed file for data too large for a pipe. The
file is deleted when the processes end. When this process ends, for whatever reason, the child ends, too.

For frequent calls, the host can use the method `ring`, which writes a number to a shared memory page, and signals
an eventfd. Such a call takes a fifth of the time of a call through the pipe.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from litert.core.errors import PRINTED, ChildEndedError, LiteRtError, describe
from litert.core.status import Status
from litert.core.tracing import is_recording, take_in
from litert.host.child_process import ChildProcess, Watch
from litert.host.child_side import error_message, raise_error
from litert.host.sandbox import Sandbox
from litert.host.serving import NUMBER_WORD, PAGE_SIZE

Answer = Callable[[str, Any], object]
"""Function that handles the child's requests during a call; its argument and the reply are JSON data."""

_FIRST_SHARED = 3
"""Number of the first file descriptor after the child's standard streams, even if this process has none."""

_logger = logging.getLogger(__name__)


def _as_it_is(answer: Any) -> Any:
    return answer


class Service:
    """A running child process.

    If the service is used as a context manager, it ends the child at the end of the `with` block.

    Attributes:
      subject: Name of the child for messages.
      fd: Descriptor of the shared file, which both processes read and write.
      words: Words of the shared memory page, as unsigned 32-bit numbers.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout_s: float,
        subject: str,
        where: str,
        sandbox: Sandbox | None = None,
        enters_later: bool = False,
        temporary_folder: str = "",
        shared: Sequence[int] = (),
        memory_bytes: int = 0,
        answer: Answer | None = None,
        describe: Callable[[str], str] | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Starts the child without waiting until it is ready.

        Args:
          target: Function as `package.module:function`, which gets the shared file's descriptor and
            returns `Handlers`.
          timeout_s: Time limit for each call, in seconds.
          subject: Name of the child for messages, for example "the compiler plugin libX.so".
          where: Text for the field `where` of errors.
          sandbox: Access rights of the child; None for all rights of this process.
          enters_later: Whether the child itself calls `enter_sandbox`, after it has determined which access rights
            it needs.
          temporary_folder: Directory for the child's temporary files; "" for this process's
            directory.
          shared: Descriptors of open files that the child inherits under the same numbers.
          memory_bytes: Maximum size of the child's data in memory, in bytes; 0 for no limit.
          answer: Function that handles the child's requests.
          describe: Function that returns more details about the child's activity when a call fails.
          watch: Function that returns the time limit for the child's current activity within a call.
        """
        self.subject = subject
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._end_error: ChildEndedError | None = None
        self._begun: tuple[str, object] | None = None
        self._answer = answer
        with ExitStack() as files:
            try:
                self.fd = _own_file(files)
                page_fd, page = _shared_page(files)
                bells = [_own_bell(files) for _ in range(2)]
            except OSError as error:
                raise LiteRtError(Status.FILE_IO, f"no temporary file: {error}", where) from error
            self.words = files.enter_context(memoryview(page).cast("I"))
            self._running = _Running(page, describe)
            settings = {
                "fd": self.fd,
                "page": page_fd,
                "bells": bells,
                "enters_later": enters_later,
                "has_answers": answer is not None,
                "log_level": _logger.getEffectiveLevel(),
            }
            self._child = ChildProcess(
                "litert.host.serving:serve",
                [target, json.dumps(settings)],
                subject=subject,
                where=where,
                doing=self._running.describe,
                shared=[self.fd, page_fd, *bells, *shared],
                memory_bytes=memory_bytes,
                sandbox=sandbox,
                enters_later=enters_later,
                temporary_folder=temporary_folder,
                watch=watch,
            )
            self._ring, self._rung = bells
            self._poll = select.poll()
            for fd in (self._rung, *self._child.outputs):
                self._poll.register(fd, select.POLLIN)
            kept = files.pop_all()
        self._finalizer = weakref.finalize(self, _clean_up, self._owner, self._child, kept)

    def begin(self, call: str, argument: object = None) -> None:
        """Starts the child's first call, which must be short; `ask` with the same arguments gives the reply."""
        self._begun = call, argument
        self._child.send(self._request(call, argument, self._timeout_s))

    def ask(
        self,
        call: str,
        argument: object = None,
        timeout_s: float = 0,
        read: Callable[[Any], Any] = _as_it_is,
    ) -> Any:
        """Calls a function in the child and returns the reply.

        Args:
          call: Name of the call.
          argument: Argument of the call.
          timeout_s: Time limit for this call, in seconds; 0 for the common limit of all calls.
          read: Function that converts the reply; if this function raises an exception, the reply is invalid.

        Raises:
          ChildEndedError: RUNTIME_FAILURE or TIMEOUT_EXPIRED, if the child crashed or took too long in this call
            or in an earlier call.
          LiteRtError: The error that the call raised, with the output that the child printed during the call.
        """
        with self._lock:
            self._check_alive()
            self._running.call = call
            timeout_s = timeout_s or self._timeout_s
            return self._guarded(lambda: read(self._ask(call, argument, timeout_s)))

    def ring(self, call: str, number: int, timeout_s: float) -> None:
        """Calls the child with a number as the only argument; the child sends no reply message.

        Raises the same errors as `ask`.

        In the child, the handler `ring` is called; `call` is the name of the call in messages.
        """
        with self._lock:
            self._check_alive()
            self._running.call = call
            self.words[NUMBER_WORD] = number
            self._guarded(lambda: self._ring_and_hear(call, timeout_s))

    @property
    def is_alive(self) -> bool:
        """Whether the child accepts calls.

        If the child has ended in the meantime, the next call reports the end.
        """
        return self._end_error is None and self._finalizer.alive

    def close(self) -> None:
        """Asks the child to end, and kills the child if it does not end."""
        with self._lock:
            if self._end_error is None:
                self._end_error = ChildEndedError(
                    Status.RUNTIME_FAILURE, f"{self.subject} is closed"
                )
                if os.getpid() == self._owner:
                    self._child.let_end()
                self._finalizer()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_alive(self) -> None:
        if self._end_error is not None:
            raise self._end_error
        if not self._finalizer.alive:
            raise self._at_exit()
        if os.getpid() != self._owner:
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                f"this forked process cannot use {self.subject}, which its parent process started",
                hint="Start processes by 'spawn' or 'forkserver', or load the models in each process separately.",
            )

    def _guarded(self, talk: Callable[[], Any]) -> Any:
        """Exchanges messages with the child, and stops the child after a failure."""
        try:
            return self._until_exit(talk)
        except ChildEndedError as error:
            self._end_error = error
            self._finalizer()
            raise
        except LiteRtError:  # the child works as before
            raise
        except Exception as error:  # an error in a message, which may come from a compromised child
            self._end_error = self._child.error(
                f"sent a reply that cannot be read: {describe(error)}"
            )
            self._finalizer()
            raise self._end_error from error
        except BaseException:  # Ctrl-C: the state of the child is unknown
            self._end_error = ChildEndedError(
                Status.CANCELLED, f"{self.subject} was stopped in {self._running.call}"
            )
            self._finalizer()
            raise

    def _until_exit(self, talk: Callable[[], Any]) -> Any:
        """Exchanges messages with the child.

        In a daemon thread, the interpreter's exit may close everything meanwhile.
        """
        try:
            return talk()
        except Exception as error:
            if self._finalizer.alive:
                raise
            raise self._at_exit() from error

    def _at_exit(self) -> BaseException:
        """Handles a call during the interpreter's exit: a daemon thread may end silently at any point."""
        if threading.current_thread() is not threading.main_thread():
            return SystemExit()
        return ChildEndedError(Status.RUNTIME_FAILURE, f"{self.subject} is closed")

    def _ask(self, call: str, argument: object, timeout_s: float) -> Any:
        request = self._request(call, argument, timeout_s)
        if self._begun is not None:
            assert self._begun == (call, argument)
            self._begun, request = None, b""
        self._child.set_time_limit(timeout_s)
        return self._hear(call, request)

    def _ring_and_hear(self, call: str, timeout_s: float) -> None:
        self._child.set_time_limit(timeout_s)
        os.eventfd_write(self._ring, 1)
        if self._poll.poll(timeout_s * 1000) == [(self._rung, select.POLLIN)]:
            os.eventfd_read(self._rung)
        else:  # the child answers, prints, has ended, or takes too long
            self._hear(call, b"")

    def _hear(self, call: str, request: bytes) -> Any:
        """Sends a request, if there is one, and reads the child's messages until it has answered, or rung."""
        while True:
            message = self._next_message(request)
            if message is None:
                self._note_printed(call, self._child.said())
                return None
            if "question" not in message:
                return self._take_answer(call, message)
            start_s = time.monotonic()
            request = self._reply(*message["question"])
            self._child.extend_time_limit(time.monotonic() - start_s)

    def _next_message(self, request: bytes) -> dict[str, Any] | None:
        """Returns the child's next message except log records; None if the child has rung."""
        for line in self._child.lines(request, is_last=False, bell=self._rung):
            if not line:
                return None
            message: dict[str, Any] = json.loads(line)
            if "log" not in message:
                return message
            name, level, text = message["log"]
            logging.getLogger(name).log(level, "%s", text)
        raise self._child.early_end()

    def _take_answer(self, call: str, message: dict[str, Any]) -> Any:
        take_in(message.get("spans", ()), self.subject)
        said = self._child.said()
        try:
            raise_error(message)
        except LiteRtError as error:
            if not said or error.status is Status.UNSUPPORTED:  # an error is a reply, too
                raise
            what = f"{error.what}{PRINTED}{said}"
            raise LiteRtError(error.status, what, error.where, error.hint) from None
        self._note_printed(call, said)
        return message["answer"]

    def _note_printed(self, call: str, said: str) -> None:
        if said:
            _logger.info("%s printed in %s:\n%s", self.subject, call, said)

    def _reply(self, question: str, argument: object) -> bytes:
        assert self._answer is not None
        try:
            reply: dict[str, object] = {"answer": self._answer(question, argument)}
        except LiteRtError as error:
            reply = error_message(error, question)
        return json.dumps(reply).encode() + b"\n"

    def _request(self, call: str, argument: object, timeout_s: float) -> bytes:
        request = {
            "call": call,
            "argument": argument,
            "timeout_s": timeout_s,
            "is_recorded": is_recording(),
        }
        return json.dumps(request).encode() + b"\n"


class _Running:
    """Returns the child's current activity: a call, and perhaps a native function in it, or a vendor's task."""

    def __init__(self, page: mmap.mmap, describe: Callable[[str], str] | None) -> None:
        self.call = ""
        self._page = page
        self._describe = describe or str

    def describe(self) -> str:
        size = self._page[0]
        native = self._page[1 : 1 + size].decode(errors="replace")
        return f" in {native or self._describe(self.call)}"


def seal_size(fd: int) -> None:
    """Seals the size of an in-memory file that a child shares, so that the child cannot change the size."""
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)


def _own_file(files: ExitStack) -> int:
    import tempfile  # imported here, because the child does not need it

    with tempfile.TemporaryFile(buffering=0) as unnamed:
        return _keep(files, fcntl.fcntl(unnamed.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_SHARED))


def _shared_page(files: ExitStack) -> tuple[int, mmap.mmap]:
    """Makes a page that the child cannot remove: an access to a removed page would crash this process."""
    made = os.memfd_create("litert-npu-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fd = _keep(files, fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _FIRST_SHARED))
    finally:
        os.close(made)
    os.ftruncate(fd, PAGE_SIZE)
    seal_size(fd)
    return fd, files.enter_context(mmap.mmap(fd, PAGE_SIZE))


def _own_bell(files: ExitStack) -> int:
    """Makes an eventfd on which neither process waits without a time limit, whatever the other does with it."""
    made = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        return _keep(files, fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _FIRST_SHARED))
    finally:
        os.close(made)


def _keep(files: ExitStack, fd: int) -> int:
    files.callback(_close, fd)
    return fd


def _close(fd: int) -> None:
    with suppress(OSError):
        os.close(fd)


def _clean_up(owner: int, child: ChildProcess, files: ExitStack) -> None:
    """Stops the child if the owner forgot it; a fork of this process leaves the child alone."""
    if os.getpid() == owner:
        child.end()
    files.close()
