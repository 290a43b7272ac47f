"""A child process that answers many calls, one after the other: where foreign native code lives.

It may crash, hang or end in any of them: that call fails, with the name of the native function that it was in, and
so do all later ones. Both processes have a file without a name, for what is too large for a pipe; it is gone with
them. The child ends when this process does, however that ends.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import threading
import weakref
from typing import IO, Any

from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.core.tracing import is_recording, take_in
from litert.host.child import raise_error
from litert.host.child_process import ChildProcess
from litert.host.sandbox import Sandbox
from litert.host.serving import FILE_START

_FIRST_SHARED = 3
"""Lower numbers are the child's standard streams, also where this process has closed its own."""

_logger = logging.getLogger(__name__)


class Service:
    """A running child; a context manager that ends it.

    Attributes:
      subject: who it is, for messages.
      fd: of the shared file, which both read and write from `FILE_START` on.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout_s: float,
        subject: str,
        where: str,
        sandbox: Sandbox | None = None,
    ) -> None:
        """Starts the child, and does not wait for it.

        Args:
          target: `package.module:function`, which gets the shared file's descriptor and returns `Handlers`.
          timeout_s: for each call.
          subject: who failed, for messages: "the compiler plugin libX.so".
          where: what errors say under `where`.
          sandbox: what it may use; None for all that this process may.
        """
        self.subject = subject
        import tempfile  # here: the child needs none

        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._end_error: ChildEndedError | None = None
        self._begun: tuple[str, object] | None = None
        try:
            with tempfile.TemporaryFile(buffering=0) as unnamed:
                fd = fcntl.fcntl(unnamed.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_SHARED)
            file = os.fdopen(fd, "r+b", buffering=0)  # closed by close
            os.ftruncate(fd, FILE_START)
            page = mmap.mmap(fd, FILE_START)
        except OSError as error:
            raise LiteRtError(Status.FILE_IO, f"no temporary file: {error}", where) from error
        self.fd = fd
        self._running = _Running(page)
        self._child = ChildProcess(
            "litert.host.serving:serve",
            [target, str(self.fd), str(_logger.getEffectiveLevel())],
            subject=subject,
            where=where,
            doing=self._running.describe,
            shared=[self.fd],
            sandbox=sandbox,
        )
        self._finalizer = weakref.finalize(self, _clean_up, os.getpid(), self._child, file, page)

    def begin(self, call: str, argument: object = None) -> None:
        """Has the child begin with its first call, a short one; `ask` with the same gets the answer."""
        self._begun = call, argument
        self._child.send(self._request(call, argument))

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
        if self._begun is not None:
            assert self._begun == (call, argument)
            self._begun, request = None, b""
        child.set_time_limit(self._timeout_s)
        for line in child.lines(request, is_last=False):
            message = json.loads(line)
            if "log" in message:
                name, level, text = message["log"]
                logging.getLogger(name).log(level, "%s", text)
                continue
            take_in(message.get("spans", ()), self.subject)
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
        request = {
            "call": call,
            "argument": argument,
            "timeout_s": self._timeout_s,
            "is_recorded": is_recording(),
        }
        return json.dumps(request).encode() + b"\n"


class _Running:
    """What the child does at present: a call, and perhaps a native function in it."""

    def __init__(self, page: mmap.mmap) -> None:
        self.call = ""
        self._page = page

    def describe(self) -> str:
        size = self._page[0]
        return f" in {self._page[1 : 1 + size].decode(errors='replace') if size else self.call}"


def _clean_up(owner: int, child: ChildProcess, file: IO[bytes], page: mmap.mmap) -> None:
    """Ends the child, whoever forgot it; a fork of this process leaves it alone."""
    if os.getpid() == owner:
        child.end()
    page.close()
    file.close()
