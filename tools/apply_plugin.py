"""`apply_plugin`: compiles a model for an NPU.

This module imports next to nothing, so that it is there, and guards against Ctrl-C, before what takes a while.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from .process_start import run_process


def run() -> None:
    """The command, in a process of its own."""
    gc.set_threshold(100_000)  # imports and a model make many objects, and no garbage
    run_process(guarded_main)


def guarded_main(argv: Sequence[str]) -> int:
    """Runs a command line and returns the exit status; an error is one message."""
    from .command import run_guarded

    return run_guarded(main, argv)


def main(argv: Sequence[str]) -> int:
    """Runs a command line, its first word being the program's name; returns the exit status.

    Raises:
      LiteRtError: with no output written.
    """
    from .apply_command_line import execute

    return execute(argv)


if __name__ == "__main__":
    run()
