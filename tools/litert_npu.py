"""`litert-npu`: runs, measures and examines models that were compiled for an NPU.

A command is a module of this folder, `<command>_command.py`, with a `Command` as its `COMMAND`. Only the one that
is asked for is imported, and before it little, so that the guard against Ctrl-C is there first.
"""

from __future__ import annotations

from collections.abc import Sequence

from .process_start import run_process

ABOUT = (
    "Runs, measures and examines models that apply_plugin compiled for an NPU. "
    "litert-npu --version shows the version."
)
COMMANDS = {
    "run": "run a model on inputs from files, or on random ones",
    "benchmark": "measure a model, call by call, beside stock LiteRT on the CPU",
    "coverage": "show which ops of models an NPU takes, and why others stay on the CPU",
    "compare": "say which op of a model is wrong on an NPU, beside stock LiteRT's plain kernels",
    "profile": "show where the time of a model's runs goes: NPU calls, ops of the CPU, the rest",
    "inspect": "show what a compiled file holds; dump it, or take something out",
    "diff": "show which ops of a model came, went and changed",
    "check": "say whether a compiled file will run here, without loading a driver",
    "sign": "sign a file with a key of your own",
    "verify": "say whether a file is as the owner of a key has signed it",
    "layer": "check, run, measure and begin a kernel for a custom op",
    "tune": "measure how the NPU's builtin ops run fastest on this device, and keep it",
    "vendor": "make, export and check a vendor's plugin and dispatch table",
    "transform": "run transformations on a TFLite model, without a vendor",
    "opt": "run passes of the reference compiler on IR text",
    "completion": "print a script that completes command lines in bash or zsh",
    "info": "list vendors, OpenCL platforms and versions on this machine",
}


def run() -> None:
    """The command, in a process of its own."""
    run_process(guarded_main)


def guarded_main(arguments: Sequence[str]) -> int:
    """Runs a command line; an error is one message, and an exit status."""
    from .command import run_guarded

    return run_guarded(main, arguments)


def main(arguments: Sequence[str]) -> int:
    """Runs a command line, its first word being the program's name; returns the exit status."""
    if arguments[1:2] == ["--version"]:
        from .console import print_version

        print_version("litert-npu")
        return 0
    from .command import CommandGroup

    return CommandGroup(ABOUT, ".{}_command", COMMANDS).main("litert-npu", arguments[1:])
