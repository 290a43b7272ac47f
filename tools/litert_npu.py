"""`litert-npu`: runs, measures and examines models that were compiled for an NPU.

Each command is a module `<command>_command.py` in this folder, which defines a `Command` named `COMMAND`. Only the
module of the requested command is imported, after the Ctrl-C handler is installed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .process_start import run_process

ABOUT = (
    "Runs, measures and examines models that apply_plugin compiled for an NPU. "
    "litert-npu --version shows the version."
)
COMMANDS = {
    "run": "run a model on inputs from files, or on random inputs",
    "benchmark": "measure a model and each of its NPU calls, and compare with stock LiteRT on "
    "the CPU",
    "coverage": "show which ops of models an NPU can run, and why other ops stay on the CPU",
    "compare": (
        "find the op with wrong results on an NPU, by comparison with stock LiteRT's CPU kernels"
    ),
    "profile": "show how the time of a model's run is divided among NPU calls and ops on the CPU",
    "inspect": "show the contents of a compiled file, print its graph, or extract a part",
    "diff": "compare two models: which ops were added, removed or changed",
    "check": "check whether a compiled file can run on this machine, without loading a driver",
    "sign": "sign a file with your private key",
    "verify": "check the signature of a file",
    "layer": "create, check, run, measure and tune a kernel for a custom op",
    "tune": "measure which settings make builtin ops fastest on this device, and store these settings",
    "vendor": "create, export and check a vendor's compiler plugin and dispatch table",
    "transform": "run transformations on a TFLite model, without compiling it",
    "opt": "run compiler passes on IR text, which is the reference compiler's form of a model",
    "completion": "print a script that completes command lines in bash or zsh",
    "info": "list the vendors, OpenCL drivers and software versions on this machine",
}


def run() -> None:
    """Runs the command line of this process, and ends the process."""
    run_process(guarded_main)


def guarded_main(arguments: Sequence[str]) -> int:
    """Runs a command line and returns the exit status; an error is printed as one message."""
    from .command import run_guarded

    return run_guarded(main, arguments)


def main(arguments: Sequence[str]) -> int:
    """Runs a command line, which begins with the program's name, and returns the exit status."""
    if arguments[1:2] == ["--version"]:
        from .console import print_version

        print_version("litert-npu")
        return 0
    from .command import CommandGroup

    return CommandGroup(ABOUT, ".{}_command", COMMANDS).main("litert-npu", arguments[1:])
