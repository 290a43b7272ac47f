"""A Python process that this one has started, and talks with in lines over pipes.

It may crash, hang or print what it likes without harm to this one. What it prints goes to its standard error,
whose end is in the errors here. It may have children of its own: they end with it.
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

from litert.core.errors import ChildEndedError, LiteRtError
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
"""Of what is printed: somebody who prints for ever is not waited for."""

_HINTS = {
    errno.EMFILE: "Allow more open files (ulimit -n): each such process takes five.",
    errno.EAGAIN: "Allow more processes (ulimit -u).",
}


Watch: TypeAlias = Callable[[], tuple[float, float]]
"""The seconds that are left for something, and how many it may take."""


class ChildProcess:
    """A child, with what it says."""

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
          target: `package.module:function`, which the child calls with the arguments; `become_child` comes first.
          arguments: for it.
          subject: who failed, for messages: "the OpenCL compiler".
          where: what errors say under `where`; the target by default.
          hear: gets what the child prints, as it comes; errors then do not repeat it.
          doing: says for messages what it does at present: " in compile"; "" for nothing in particular.
          shared: descriptors of open files that the child has, too, under the same numbers.
          memory_bytes: how much data it may have in memory; 0 for no limit.
          temporary_folder: where its temporary files go, and those of its own children; "" for where this
            process's go.
          sandbox: what it may use, and its temporary folder; None for all that this process may.
          enters_later: whether it enters a sandbox by itself, once it knows what it needs.
          watch: says, now and then, how many seconds are left for what the child is at, and how many that had.

        Raises:
          LiteRtError: DYNAMIC_LOADING, if it cannot be started; UNSUPPORTED, if this system lacks a sandbox that
            is required.
        """
        self._subject = subject
        self._where = where or target
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
            raise LiteRtError(
                Status.DYNAMIC_LOADING,
                f"{subject} cannot be started: {error.strerror or error}",
                self._where,
                _HINTS.get(error.errno or 0, ""),
            ) from error
        child = self._process
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        self._stdin, self._stdout, self._stderr = child.stdin, child.stdout, child.stderr
        self.pid = child.pid
        os.set_blocking(self._stdin.fileno(), False)

    def set_time_limit(self, timeout_s: float) -> None:
        """From now on; `lines` fails when it is over."""
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def extend_time_limit(self, extra_s: float) -> None:
        """Gives it more time: what this process took meanwhile."""
        self._deadline += extra_s

    def send(self, request: bytes) -> None:
        """Sends a short request, of a few KiB, before there is time to hear the answer."""
        unsent = _send(self._stdin, memoryview(request))
        assert not unsent  # an empty pipe has room for more

    @property
    def outputs(self) -> tuple[int, int]:
        """The descriptors of what it says: answers, and what it prints."""
        return self._stdout.fileno(), self._stderr.fileno()

    def lines(self, request: bytes, *, is_last: bool, bell: int = -1) -> Iterator[bytes]:
        """Sends a request, and yields what the child says, until its end, in lines; its errors are kept meanwhile.

        Who has what it wants stops early, and may ask again unless it was the last. Where the child may ring a
        bell, an eventfd, in place of an answer, an empty line is that.

        Raises:
          ChildEndedError: TIMEOUT_EXPIRED.
          LiteRtError: RUNTIME_FAILURE, for too long an answer.
        """
        unsent, total = memoryview(request), 0
        with selectors.PollSelector() as selector:  # not select, which fails with many open files
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
                    raise self.error(f"said more than {_ANSWER_LIMIT >> 20} MiB")

    def said(self) -> str:
        """What it has printed since the last call of this; nothing where `hear` gets it."""
        self._drain()
        text, self._errors = _lines_of(self._errors), b""
        return text

    def await_end(self) -> None:
        """Waits a little for a child that has nothing more to do: it removes what it made as it ends."""
        self._wait(_EXIT_GRACE_S)
        self._drain()

    @property
    def has_ended_well(self) -> bool:
        """Whether it has ended by now, with status 0."""
        return self._process.poll() == 0

    def let_end(self) -> None:
        """Says that nothing more comes, and gives the child a little time to end by itself."""
        with suppress(OSError):
            self._stdin.close()
        self.await_end()
        self.end()

    def early_end(self) -> ChildEndedError:
        """The error for a child that has closed its output before it was done."""
        status = self._wait(max(self._deadline - time.monotonic(), 0.1))
        if status is None:
            return self.error(
                f"closed its output{self._doing()}, and was stopped", Status.TIMEOUT_EXPIRED
            )
        self._drain()
        if status >= 0:
            return self.error(f"ended with status {status}{self._doing()}")
        name = signal.Signals(-status).name
        return self.error(f"crashed{self._doing()} ({name}: {signal.strsignal(-status)})")

    def error(self, ending: str, status: Status = Status.RUNTIME_FAILURE) -> ChildEndedError:
        """An error that says what became of the child, and what it has printed."""
        said = _lines_of(self._errors)
        what = f"{self._subject} {ending}" + (f":\n{said}" if said else "")
        return ChildEndedError(status, what, self._where)

    def end(self) -> None:
        """Leaves neither process nor pipe behind; what the child itself started goes with it."""
        child = self._process
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            child.kill()
        for stream in (self._stdin, self._stdout, self._stderr):
            with suppress(OSError):  # what was not sent
                stream.close()
        child.wait()

    def _time_left(self) -> float:
        left, limit = self._deadline - time.monotonic(), self._timeout_s
        if self._watch is not None:
            left, limit = min((left, limit), self._watch())
        if left <= 0:
            raise self.error(
                f"was not done{self._doing()} after {limit:g} s, and was stopped",
                Status.TIMEOUT_EXPIRED,
            )
        return left if self._watch is None else min(left, _LOOK_S)

    def _wait(self, timeout_s: float) -> int | None:
        """Its exit status, or minus the signal that ended it; None if it has not ended by then."""
        end = time.monotonic() + timeout_s
        while (status := self._process.poll()) is None and time.monotonic() < end:
            time.sleep(_POLL_S)
        return status

    def _drain(self) -> None:
        """Keeps what is in its standard error by now."""
        if self._stderr.closed:
            return
        os.set_blocking(self._stderr.fileno(), False)
        with suppress(BlockingIOError):  # it, or a process that it left behind, may still write
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
    """What was printed, without the notes that LiteRT's own libraries make of what they do."""
    lines = printed.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith("INFO: ")).strip()


def half_of_memory() -> int:
    """Half of the machine's memory, in bytes: what a child may have by default."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _send(stream: IO[bytes], data: memoryview) -> memoryview:
    try:
        return data[os.write(stream.fileno(), data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:  # it has ended: its output says why
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
    import subprocess  # here: most commands start no child

    module, _, function = target.partition(":")
    # The sandbox comes first: it would leave threads free that what is imported behind it may start.
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
    """The interpreter; `sys.executable` names another program where Python is embedded in one."""
    if sys.executable and "python" in os.path.basename(sys.executable):
        return sys.executable
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(sys.exec_prefix, "bin", name)
