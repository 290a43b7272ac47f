"""`apply_plugin`: compiles a model for an NPU.

This module imports next to nothing, so that it is there, and guards against Ctrl-C, before what takes a while.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .process_start import end_on_signals, open_standard_streams, say_interrupted


def run() -> None:
    """The command, in a process of its own."""
    open_standard_streams()
    try:
        import gc

        gc.set_threshold(100_000)  # imports and a model make many objects, and no garbage
        end_on_signals()
        status = guarded_main(sys.argv)
        gc.freeze()  # the collections at exit find nothing to do: a tenth of a small model's time
    except KeyboardInterrupt:  # while the guard was imported
        status = say_interrupted()
    sys.exit(status)


def guarded_main(argv: Sequence[str]) -> int:
    """Runs a command line; an error is one message, and its status the exit status, as in stock."""
    from .command import run_guarded

    return run_guarded(main, argv, lambda status: status % 256)


def main(argv: Sequence[str]) -> int:
    """Runs a command line.

    Args:
      argv: with the program's name.

    Returns:
      The exit status.

    Raises:
      LiteRtError: with no output written.
    """
    from .apply_command_line import define_flags, execute, help_text, parse, read_command

    values = define_flags()
    rest = parse(values, argv)
    if values.help:
        from .console import print_text

        print_text(help_text(values), sys.stdout)
        return 0
    if values.debug:
        import logging

        logging.basicConfig(level=logging.DEBUG)
    execute(read_command(values, rest))
    return 0


if __name__ == "__main__":
    run()
