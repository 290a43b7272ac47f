"""The first steps of a command: reopens closed standard streams, and handles Ctrl-C and sudden ends.

Ctrl-C ends a command even if native code, such as a kernel, never returns. If a vendor's code in this process
tries to end the process, the command reports an error (see `guard_end`).
"""

from __future__ import annotations

import faulthandler
import gc
import os
import posix
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

_GRACE_S = 3.0
_end = os._exit
ERROR = 2  # 1 is a result: two models differ, or a file cannot run
INTERRUPTED = 130  # as in shells: 128 + SIGINT
BROKEN_PIPE = 141  # 128 + SIGPIPE: the reader has closed the pipe
_CRASHED = (
    "\nRUNTIME_FAILURE: native code crashed this process. If the stack trace above contains a line 'in run KERNEL "
    "of op OP', this kernel was running. In this case, litert-npu layer check FILE --sanitize finds the kernel's "
    "wrong memory accesses; FILE is the layer with the kernel. With --isolate, a crash of a kernel only ends the "
    "run, and the error names the kernel.\n"
)


_is_own_process = False
"""Whether this process runs only a command, so that the command may change how the process handles a crash."""


class ProcessEnd(BaseException):
    """A vendor's or library's code has tried to end or to replace this process."""


def run_process(main: Callable[[Sequence[str]], int]) -> None:
    """Runs the command line of this process, and ends the process with the exit status that `main` returns."""
    global _is_own_process
    _is_own_process = True
    open_standard_streams()
    faulthandler.enable()  # the stack trace of a crash shows the NPU call and its current task
    guard_end()
    try:
        end_on_signals()
        status = main(sys.argv)
        gc.freeze()  # the garbage collections at exit find nothing, which saves a tenth of a small model's time
    except KeyboardInterrupt:  # while `main` was imported
        print(f"{after_ctrl_c()}CANCELLED: interrupted", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)


def note_kernel_crashes() -> None:
    """After this call, a crash of this process prints a message about kernels in this process."""
    if _is_own_process:
        from .crash_note import install_crash_note  # here: --help must not wait for it

        install_crash_note(_CRASHED)


def end_on_signals(grace_s: float = _GRACE_S) -> None:
    """Converts SIGINT and SIGTERM to a `KeyboardInterrupt`, so that incomplete files are removed.

    Python raises the `KeyboardInterrupt` when the main thread returns from native code to Python. If native code
    takes too long to return, the process is ended at once.

    Args:
      grace_s: Time for the main thread to return and clean up, in seconds.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # as Python requires
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(
        target=_watch, args=(reader, grace_s), name="signal watcher", daemon=True
    ).start()


def guard_end() -> None:
    """Makes `os._exit`, `os.execv` and the variants of `os.execv` raise an error.

    If a vendor's code calls one of these functions, the command has not finished its work, whatever the exit
    status is. In the main thread, the error is handled like any other error: incomplete files are removed, and a
    message says which code has called the function. In any other thread, the error is printed and the process
    ends. Forked child processes are not affected. Machine code that ends the process directly is not detected.
    """
    process = os.getpid()

    def guard(name: str) -> None:
        function: Callable[..., object] = getattr(os, name)

        def guarded(*arguments: object, **named: object) -> object:
            if os.getpid() != process:
                return function(*arguments, **named)
            what = f"os.{name}({', '.join(map(repr, arguments))})"
            if threading.current_thread() is threading.main_thread():
                raise ProcessEnd(what)
            thread = threading.current_thread().name
            print(
                f"RUNTIME_FAILURE: code in thread '{thread}' has tried to end the process: {what}",
                file=sys.stderr,
                flush=True,
            )
            _end(ERROR)

        for module in (os, posix):
            setattr(module, name, guarded)

    for name in ("_exit", "execv", "execve"):
        guard(name)


def _watch(reader: int, grace_s: float) -> None:
    while os.read(reader, 1)[0] not in (signal.SIGINT, signal.SIGTERM):
        continue
    time.sleep(grace_s)
    said = f"{after_ctrl_c()}CANCELLED: interrupted during a native call that does not return"
    print(said, file=sys.stderr, flush=True)
    _end(INTERRUPTED)


def after_ctrl_c() -> str:
    """Returns the beginning of a message after Ctrl-C: a line break, if a terminal shows `^C` before it."""
    return "\n" if sys.stderr.isatty() else ""


def open_standard_streams() -> None:
    """Opens the null device in place of each closed standard stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
            # The lowest free number, which is the number of the closed stream.
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
