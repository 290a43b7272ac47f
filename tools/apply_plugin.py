"""`apply_plugin`: compiles a model for an NPU.

This module imports very little, so that its guard against Ctrl-C is active before slow imports begin.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from .process_start import run_process


def run() -> None:
    """Runs the command line of this process, and ends the process."""
    gc.set_threshold(100_000)  # imports and a model make many objects, and no garbage
    run_process(guarded_main)


def guarded_main(argv: Sequence[str]) -> int:
    """Runs a command line and returns the exit status; an error is one message."""
    from .command import run_guarded

    return run_guarded(main, argv)


def main(argv: Sequence[str]) -> int:
    """Runs a command line, whose first word is the program's name; returns the exit status.

    Raises:
      LiteRtError: The command failed, and wrote no output.
    """
    from .apply_command_line import execute

    return execute(argv)


if __name__ == "__main__":
    run()
