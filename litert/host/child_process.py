"""A Python child process that exchanges lines with this process through pipes.

The child may crash, hang or print without harming this process. Output that the child prints goes to its standard
error, and errors of this module contain the end of this output. If the child ends, its own child processes end,
too.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, TypeAlias

from litert.core.errors import PRINTED, ChildEndedError, ChildStartError
from litert.core.status import Status
from litert.host.child_side import is_child
from litert.host.sandbox import Sandbox, usable

if TYPE_CHECKING:
    from subprocess import Popen

_ANSWER_LIMIT = 64 << 20
_ERRORS_KEPT = 4096
_EXIT_GRACE_S = 2
_POLL_S = 0.001
_LOOK_S = 0.2
_MOST_READS = 64
"""Largest number of reads of printed output in a row, because a child may print forever."""

_HINTS = {
    errno.EMFILE: "Allow more open files (ulimit -n): each process of a vendor needs five open files.",
    errno.EAGAIN: "Allow more processes (ulimit -u).",
}


Watch: TypeAlias = Callable[[], tuple[float, float]]
"""Function that returns the remaining seconds for an activity, and its time limit in seconds."""


class ChildProcess:
    """A child process and its output."""

    def __init__(
        self,
        target: str,
        arguments: Sequence[str],
        *,
        subject: str,
        where: str = "",
        hear: Callable[[bytes], object] | None = None,
        doing: Callable[[], str] = str,
        shared: Sequence[int] = (),
        memory_bytes: int = 0,
        temporary_folder: str = "",
        sandbox: Sandbox | None = None,
        enters_later: bool = False,
        watch: Watch | None = None,
    ) -> None:
        """Starts a child.

        Args:
          target: Function as `package.module:function`. The child calls `become_child`, and then this function
            with the arguments.
          arguments: Arguments of the function.
          subject: Name of the child for messages, for example "the OpenCL compiler".
          where: Text for the field `where` of errors.
          hear: Function that receives the child's output as soon as it is printed; errors then do not repeat the
            output.
          doing: Text about the current activity of the child, for messages, for example " in compile"; "" for no
            particular activity.
          shared: Descriptors of open files that the child inherits under the same numbers.
          memory_bytes: Maximum size of the child's data in memory, in bytes; 0 for no limit.
          temporary_folder: Directory for temporary files of the child and of its own children; ""
            for this process's directory.
          sandbox: Access rights of the child, in addition to its temporary directory; None for all rights of this
            process.
          enters_later: Whether the child enters the sandbox itself, after it has determined which access rights it
            needs.
          watch: Function that returns the remaining seconds for the child's current activity, and
            the time limit of the activity.

        Raises:
          LiteRtError: DYNAMIC_LOADING, if the child cannot start; UNSUPPORTED, if a sandbox is required and this
            system has none.
        """
        self._subject = subject
        self._where = where
        self._hear = hear
        self._doing = doing
        self._watch = watch
        self._errors = b""
        self._received = b""
        self._timeout_s = 0.0
        self._deadline = 0.0
        if sandbox is not None and temporary_folder:
            sandbox = sandbox.with_writable(temporary_folder)
        used = usable(sandbox, subject)
        try:
            self._process = _start(
                target, arguments, shared, memory_bytes, temporary_folder, used, enters_later
            )
        except OSError as error:
            file = f": {error.filename}" if error.filename else ""
            raise ChildStartError(
                Status.DYNAMIC_LOADING,
                f"{subject} cannot start: {error.strerror or error}{file}",
                self._where,
                _HINTS.get(error.errno or 0, ""),
            ) from error
        child = self._process
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        self._stdin, self._stdout, self._stderr = child.stdin, child.stdout, child.stderr
        self.pid = child.pid
        os.set_blocking(self._stdin.fileno(), False)

    def set_time_limit(self, timeout_s: float) -> None:
        """Sets a time limit in seconds, which begins now. When the time is over, `lines` raises an error."""
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def extend_time_limit(self, extra_s: float) -> None:
        """Extends the time limit by the time during which this process worked instead of the child."""
        self._deadline += extra_s

    def send(self, request: bytes) -> None:
        """Sends a request of at most a few KiB, without reading the reply."""
        unsent = _send(self._stdin, memoryview(request))
        assert not unsent  # an empty pipe has enough room

    @property
    def outputs(self) -> tuple[int, int]:
        """The file descriptors of the child's replies and of its printed output."""
        return self._stdout.fileno(), self._stderr.fileno()

    def lines(self, request: bytes, *, is_last: bool, bell: int = -1) -> Iterator[bytes]:
        """Sends a request and yields the child's lines until its end; printed output is kept for errors.

        The caller may stop iterating and send another request later, unless the request was the last one. If the
        child may signal an eventfd instead of sending a reply, an empty line stands for the signal.

        Raises:
          ChildEndedError: TIMEOUT_EXPIRED.
          LiteRtError: RUNTIME_FAILURE, if a reply is too long.
        """
        unsent, total = memoryview(request), 0
        # Poll instead of select, which fails with many open files
        with selectors.PollSelector() as selector:
            for reader in (self._stdout, self._stderr):
                selector.register(reader, selectors.EVENT_READ)
            if unsent:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            if bell >= 0:
                selector.register(bell, selectors.EVENT_READ)
            while self._stdout in selector.get_map():
                for key, _ in selector.select(self._time_left()):
                    if key.fileobj is self._stdin:
                        unsent = _send(self._stdin, unsent)
                        if not unsent:
                            selector.unregister(self._stdin)
                            if is_last:
                                self._stdin.close()
                        continue
                    if key.fd == bell:
                        os.eventfd_read(bell)
                        yield b""
                        continue
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self._stderr:
                        self._keep(data)
                    else:
                        total += len(data)
                        *lines, self._received = (self._received + data).split(b"\n")
                        yield from lines
                if total > _ANSWER_LIMIT:
                    raise self.error(f"sent a reply of more than {_ANSWER_LIMIT >> 20} MiB")

    def said(self) -> str:
        """Returns the output that the child has printed since the last call; "" if `hear` receives the output."""
        self._drain()
        text, self._errors = _lines_of(self._errors), b""
        return text

    def await_end(self) -> None:
        """Waits a short time until an idle child has ended, because the child removes its files before it ends."""
        self._wait(_EXIT_GRACE_S)
        self._drain()

    @property
    def has_ended_well(self) -> bool:
        """Returns whether the child has ended with status 0."""
        return self._process.poll() == 0

    def let_end(self) -> None:
        """Closes the child's input and gives the child a short time to end by itself."""
        with suppress(OSError):
            self._stdin.close()
        self.await_end()
        self.end()

    def early_end(self) -> ChildEndedError:
        """Returns an error for a child that closed its output too early."""
        status = self._wait(max(self._deadline - time.monotonic(), 0.1))
        if status is None:
            return self.error(
                f"closed its output{self._doing()} but did not end, so it was stopped",
                Status.TIMEOUT_EXPIRED,
            )
        self._drain()
        if status == 0:
            return self.error(f"ended with status 0{self._doing()}, before it had sent its reply")
        if status > 0:
            return self.error(f"ended with status {status}{self._doing()}")
        name = signal.Signals(-status).name
        return self.error(f"crashed{self._doing()} ({name}: {signal.strsignal(-status)})")

    def error(self, ending: str, status: Status = Status.RUNTIME_FAILURE) -> ChildEndedError:
        """Returns an error that says how the child ended and what it printed."""
        said = _lines_of(self._errors).removesuffix(".")
        what = f"{self._subject} {ending}" + (f"{PRINTED}{said}" if said else "")
        return ChildEndedError(status, what, self._where)

    def end(self) -> None:
        """Stops the child and the child's own child processes, and closes the pipes."""
        child = self._process
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            child.kill()
        for stream in (self._stdin, self._stdout, self._stderr):
            with suppress(OSError):  # some data were not sent
                stream.close()
        child.wait()

    def _time_left(self) -> float:
        left, limit = self._deadline - time.monotonic(), self._timeout_s
        if self._watch is not None:
            left, limit = min((left, limit), self._watch())
        if left <= 0:
            raise self.error(
                f"did not finish within {limit:g} s, and was stopped{self._doing()}",
                Status.TIMEOUT_EXPIRED,
            )
        return left if self._watch is None else min(left, _LOOK_S)

    def _wait(self, timeout_s: float) -> int | None:
        """Returns the exit status, or the negative number of the signal that ended the child, or None."""
        end = time.monotonic() + timeout_s
        while (status := self._process.poll()) is None and time.monotonic() < end:
            time.sleep(_POLL_S)
        return status

    def _drain(self) -> None:
        """Stores the available bytes of the child's standard error."""
        if self._stderr.closed:
            return
        os.set_blocking(self._stderr.fileno(), False)
        # The child, or a process that it left behind, may still write
        with suppress(BlockingIOError):
            for _ in range(_MOST_READS):
                data = os.read(self._stderr.fileno(), 1 << 16)
                if not data:
                    return
                self._keep(data)

    def _keep(self, data: bytes) -> None:
        if self._hear is not None:
            self._hear(data)
        else:
            self._errors = (self._errors + data)[-_ERRORS_KEPT:]


def _lines_of(printed: bytes) -> str:
    """Returns printed output without the notes that LiteRT's own libraries print."""
    lines = printed.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith("INFO: ")).strip()


def half_of_memory() -> int:
    """Returns half of the machine's memory, in bytes: the default memory limit of a child."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _send(stream: IO[bytes], data: memoryview) -> memoryview:
    try:
        return data[os.write(stream.fileno(), data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:  # the child has ended: its output says why
        return memoryview(b"")


def _start(
    target: str,
    arguments: Sequence[str],
    shared: Sequence[int],
    memory_bytes: int,
    temporary_folder: str,
    sandbox: Sandbox | None,
    enters_later: bool,
) -> Popen[bytes]:
    import subprocess  # imported here, because most commands start no child

    module, _, function = target.partition(":")
    # The sandbox comes first: threads that later imports start must be restricted, too.
    enters = sandbox is not None and not enters_later
    enter = "from litert.host.sandbox import enter; enter(sys.argv[2]);" if enters else ""
    start = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
        f"from litert.host.child_side import set_limits; set_limits({memory_bytes}); {enter}"
        f"from {module} import {function}; {function}(*sys.argv[3:])"
    )
    environment = dict(sandbox.environment() if sandbox else os.environ)
    if temporary_folder:
        environment["TMPDIR"] = temporary_folder
    return subprocess.Popen(
        [
            _python(),
            "-c",
            start,
            json.dumps(sys.path),
            sandbox.to_json() if sandbox else "",
            *arguments,
        ],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        pass_fds=shared,
        # Ctrl-C at the terminal is for this process, which kills that one and, as they share a group, the children
        # that it has.
        start_new_session=not is_child(),
    )


def _python() -> str:
    """Returns the path of the interpreter; `sys.executable` names another program if Python is embedded."""
    if sys.executable and "python" in os.path.basename(sys.executable):
        return sys.executable
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(sys.exec_prefix, "bin", name)
