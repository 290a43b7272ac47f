"""`litert-npu`: runs, measures and examines models that were compiled for an NPU.

A command is a module of this folder, `<command>_command.py`, with a `Command` as its `COMMAND`. Only the one that
is asked for is imported, and before it little, so that the guard against Ctrl-C is there first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .process_start import end_on_signals, open_standard_streams, say_interrupted

if TYPE_CHECKING:
    from litert.core.status import Status

    from .command import Command, CommandGroup

COMMANDS = {
    "run": "run a model on inputs from files, or on random ones",
    "benchmark": "measure a model, call by call, beside stock LiteRT on the CPU",
    "inspect": "show what a compiled file holds; dump it, or take something out",
    "diff": "show which ops of a model came, went and changed",
    "check": "say whether a compiled file will run here, without loading a driver",
    "layer": "check, run, measure and begin a kernel for a custom op",
    "vendor": "make, export and check a vendor's plugin and dispatch table",
    "transform": "run transformations on a TFLite model, without a vendor",
    "opt": "run passes of the reference compiler on IR text",
    "info": "list vendors, OpenCL platforms and versions on this machine",
}

ERROR_STATUS = {"diff": 2}
"""Exit statuses of errors in commands whose 1 is an answer."""


def run() -> None:
    """The command, in a process of its own."""
    open_standard_streams()
    try:
        end_on_signals()
        from .command import run_guarded

        status = run_guarded(main, sys.argv, error_status(sys.argv))
    except KeyboardInterrupt:  # while the guard was imported
        status = say_interrupted()
    sys.exit(status)


def main(arguments: Sequence[str]) -> int:
    """Runs a command line, its first word being the program's name.

    Returns:
      The exit status.

    Raises:
      LiteRtError: what the command raises; INVALID_TOOL_CONFIG for a wrong command line.
    """
    from .console import print_text

    name = arguments[1] if len(arguments) > 1 else "--help"
    if name in ("--help", "-h", "-help", "help", "--helpfull"):
        print_text(_help(), sys.stdout)
        return 0
    if name == "--version":
        from litert.core.version import SDK_VERSION

        print_text(f"litert-npu {SDK_VERSION}", sys.stdout)
        return 0
    if name not in COMMANDS:
        from .command_line import usage_error

        raise usage_error(
            f"no command '{name}'", f"Give one of {', '.join(COMMANDS)}; litert-npu --help."
        )
    from importlib import import_module

    command: Command | CommandGroup = import_module(f".{name}_command", __package__).COMMAND
    return command.main(f"litert-npu {name}", arguments[2:])


def error_status(arguments: Sequence[str]) -> Callable[[Status], int]:
    """The exit status of an error in the command of a command line."""
    status = ERROR_STATUS.get(arguments[1], 1) if len(arguments) > 1 else 1
    return lambda _: status


def _help() -> str:
    lines = [f"  litert-npu {name:9}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "Runs, measures and examines models that apply_plugin compiled for an NPU.",
            "",
            *lines,
            "",
            "litert-npu COMMAND --help shows the command's flags.",
        ]
    )
