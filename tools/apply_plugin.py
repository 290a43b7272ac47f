"""`apply_plugin`: compiles a model for an NPU.

This module imports very little, so that its Ctrl-C handler is installed before slow imports begin.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from .process_start import run_process


def run() -> None:
    """Runs the command line of this process, and ends the process."""
    gc.set_threshold(100_000)  # imports and models create many objects, but no garbage
    run_process(guarded_main)


def guarded_main(argv: Sequence[str]) -> int:
    """Runs a command line and returns the exit status; an error is printed as one message."""
    from .command import run_guarded

    return run_guarded(main, argv)


def main(argv: Sequence[str]) -> int:
    """Runs a command line, which begins with the program's name, and returns the exit status.

    Raises:
      LiteRtError: The command failed without writing an output file.
    """
    from .apply_command_line import execute

    return execute(argv)


if __name__ == "__main__":
    run()
