"""Calls a function in a child process, where it may crash or hang without harm to this one.

The function gets one JSON value and yields others; each comes over a pipe as soon as it is there. What native
code prints in the child goes to its standard error, whose end is in the error of a child that fails.

A child may have children of its own: they end with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import IO

from litert.core.errors import LiteRtError
from litert.core.status import Status

_ANSWER_LIMIT = 64 << 20
_ERRORS_KEPT = 4096
_ORPHAN_GRACE_S = 5
_EXIT_GRACE_S = 2

_is_child = False  # whether this process is one that `call_in_child` has started
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from litert.host.child import serve; serve(sys.argv[2], float(sys.argv[3]))"
)


def call_in_child(
    target: str,
    argument: object,
    *,
    timeout_s: float,
    subject: str,
    hear: Callable[[bytes], object] | None = None,
    is_for_each: bool = False,
) -> Iterator[object]:
    """Calls a generator function in a new process, and yields what it yields.

    The child is killed when the caller stops early, be it by an exception or Ctrl-C.

    Args:
      target: `package.module:function`; imported in the child.
      argument: what it is called with, as JSON has it.
      timeout_s: until its end; a child that outlives this process ends a little later by itself.
      is_for_each: whether the time limit is for each answer, and begins anew with it.
      subject: who failed, for messages: "the OpenCL compiler".
      hear: gets what the child prints, as it comes; errors then do not repeat it.

    Raises:
      LiteRtError: what the function raised; TIMEOUT_EXPIRED; RUNTIME_FAILURE, if the child crashed;
        DYNAMIC_LOADING, if it could not be started.
    """
    command = [_python(), "-c", _START, json.dumps(sys.path), target, str(timeout_s)]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C at the terminal is for this process, which kills that one and, as they share a group,
            # the children that it has.
            start_new_session=not _is_child,
        )
    except OSError as error:
        raise LiteRtError(
            Status.DYNAMIC_LOADING, f"{subject} cannot be started: {error}", target
        ) from error
    try:
        conversation = _Conversation(child, target, timeout_s, subject, hear, is_for_each)
        yield from conversation.answers(argument)
    finally:
        _end(child)


def serve(target: str, timeout_s: float) -> None:
    """The child's side: reads the argument, writes a line for each answer."""
    global _is_child
    _is_child = True
    _limit(timeout_s)
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    argument = json.load(sys.stdin)
    try:
        module, _, function = target.partition(":")
        for answer in getattr(import_module(module), function)(argument):
            print(json.dumps({"answer": answer}), file=channel, flush=True)
            _set_alarm(timeout_s)
        last: dict[str, object] = {"end": True}
    except LiteRtError as error:
        last = {"error": [int(error.status), error.what, error.where, error.hint]}
    except Exception as error:
        import traceback

        traceback.print_exc()
        last = {
            "error": [int(Status.UNKNOWN), f"{type(error).__name__}: {error}", f"in {target}", ""]
        }
    print(json.dumps(last), file=channel, flush=True)


class _Conversation:
    """What a running child says."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        target: str,
        timeout_s: float,
        subject: str,
        hear: Callable[[bytes], object] | None,
        is_for_each: bool,
    ) -> None:
        self._child = child
        self._hear = hear
        self._is_for_each = is_for_each
        self._target = target
        self._timeout_s = timeout_s
        self._subject = subject
        self._deadline = time.monotonic() + timeout_s
        self._errors = b""

    def answers(self, argument: object) -> Iterator[object]:
        for line in self._lines(json.dumps(argument).encode()):
            message: dict[str, object] = json.loads(line)
            if "answer" not in message:
                with suppress(subprocess.TimeoutExpired):
                    self._child.wait(_EXIT_GRACE_S)  # it removes what it made as it ends
                self._drain()
            if "end" in message:
                return
            error = message.get("error")
            if isinstance(error, list):
                status, what, where, hint = error
                raise LiteRtError(Status(status), what, where, hint)
            if self._is_for_each:
                self._deadline = time.monotonic() + self._timeout_s
            yield message["answer"]
        raise self._early_end()

    def _lines(self, request: bytes) -> Iterator[bytes]:
        """The child's output by lines, while its standard input is fed and its errors are kept."""
        child = self._child
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        os.set_blocking(child.stdin.fileno(), False)
        readers: list[IO[bytes]] = [child.stdout, child.stderr]
        unsent, received, total = memoryview(request), b"", 0
        while child.stdout in readers:
            writers = [child.stdin] if unsent else []
            readable, writable, _ = select.select(readers, writers, [], self._time_left())
            if writable:
                unsent = self._send(child.stdin, unsent)
                if not unsent:
                    child.stdin.close()
            for stream in readable:
                data = os.read(stream.fileno(), 1 << 16)
                if not data:
                    readers.remove(stream)
                elif stream is child.stderr:
                    self._keep(data)
                else:
                    total += len(data)
                    *lines, received = (received + data).split(b"\n")
                    yield from lines
            if total > _ANSWER_LIMIT:
                raise self._error(f"said more than {_ANSWER_LIMIT >> 20} MiB")

    @staticmethod
    def _send(stream: IO[bytes], data: memoryview) -> memoryview:
        try:
            return data[os.write(stream.fileno(), data) :]
        except BlockingIOError:
            return data
        except BrokenPipeError:  # it has ended: its output says why
            return memoryview(b"")

    def _time_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._error(
                f"was not done after {self._timeout_s:g} s, and was stopped", Status.TIMEOUT_EXPIRED
            )
        return left

    def _early_end(self) -> LiteRtError:
        try:
            status = self._child.wait(max(self._deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            return self._error("closed its output, and was stopped", Status.TIMEOUT_EXPIRED)
        self._drain()
        if status >= 0:
            return self._error(f"ended with status {status}")
        name = signal.Signals(-status).name
        return self._error(f"crashed ({name}: {signal.strsignal(-status)})")

    def _drain(self) -> None:
        """Keeps what an ended child left in its standard error."""
        assert self._child.stderr is not None
        os.set_blocking(self._child.stderr.fileno(), False)
        try:
            while data := os.read(self._child.stderr.fileno(), 1 << 16):
                self._keep(data)
        except BlockingIOError:  # a process that it left behind may still write
            return

    def _keep(self, data: bytes) -> None:
        if self._hear is not None:
            self._hear(data)
            return
        self._errors = (self._errors + data)[-_ERRORS_KEPT:]

    def _error(self, ending: str, status: Status = Status.RUNTIME_FAILURE) -> LiteRtError:
        said = self._errors.decode("utf-8", "replace").strip()
        return LiteRtError(
            status, f"{self._subject} {ending}" + (f":\n{said}" if said else ""), self._target
        )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Leaves neither process nor pipe behind; what the child itself started goes with it."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
    for stream in (child.stdin, child.stdout, child.stderr):
        assert stream is not None
        try:
            stream.close()
        except OSError:  # what was not sent
            continue
    child.wait()


def _limit(timeout_s: float) -> None:
    """In the child: no core dumps, and an end of its own where the parent was killed."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _set_alarm(timeout_s)


def _set_alarm(timeout_s: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, timeout_s + _ORPHAN_GRACE_S)


def _python() -> str:
    """The interpreter; `sys.executable` names another program where Python is embedded in one."""
    if sys.executable and "python" in os.path.basename(sys.executable):
        return sys.executable
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(sys.exec_prefix, "bin", name)
