"""The first steps of a command: opens closed standard streams, and guards against Ctrl-C and sudden ends.

Ctrl-C ends a command even if native code, such as a kernel, never returns. A vendor's code
that runs in this process cannot end it as if all were well: see `guard_end`.
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
ERROR = 2  # 1 is an answer: two models differ, a file will not run
INTERRUPTED = 130  # as shells have it: 128 and SIGINT
BROKEN_PIPE = 141  # 128 and SIGPIPE: who read the output wants no more


class ProcessEnd(BaseException):
    """Other code has tried to end or to replace this process."""


def run_process(main: Callable[[Sequence[str]], int]) -> None:
    """Runs the command line of this process, and ends it with the exit status that `main` returns."""
    open_standard_streams()
    faulthandler.enable()  # the stack of a crash names the NPU call, and what of it ran
    guard_end()
    try:
        end_on_signals()
        status = main(sys.argv)
        gc.freeze()  # the collections at exit find nothing to do: a tenth of a small model's time
    except KeyboardInterrupt:  # while `main` was imported
        print(f"{after_ctrl_c()}CANCELLED: interrupted", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)


def end_on_signals(grace_s: float = _GRACE_S) -> None:
    """Turns SIGINT and SIGTERM into a `KeyboardInterrupt`, so that incomplete files are removed.

    Python raises it when the main thread is back in Python. If that takes too long, the process ends at once.

    Args:
      grace_s: Time for the main thread to return and clean up, in seconds.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # as Python asks for
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(
        target=_watch, args=(reader, grace_s), name="signal watcher", daemon=True
    ).start()


def guard_end() -> None:
    """Makes calls of `os._exit`, and of `os.execv` and its variants, raise an error.

    If other code calls these, the command has not finished its work, whatever exit status they give. In the
    main thread the error goes up like others: incomplete files are removed, and the message names the code. In
      another thread, the error is printed and the process ends. Forked child processes are not affected.
    Machine code that ends the process directly is not detected.
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
    said = f"{after_ctrl_c()}CANCELLED: interrupted in a call that does not return"
    print(said, file=sys.stderr, flush=True)
    _end(INTERRUPTED)


def after_ctrl_c() -> str:
    """Returns the begin of a message after Ctrl-C: a line break on a terminal, which shows `^C` before it."""
    return "\n" if sys.stderr.isatty() else ""


def open_standard_streams() -> None:
    """Opens closed standard streams as the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
            # The lowest number that was free, and so the stream's.
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
