"""`litert-npu layer`: what the author of a kernel does with it; each command is a module of `layer/`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from .command import Command, usage_error

COMMANDS = {
    "build": "compile a layer ahead, into a .bin",
    "check": "read, bind and build a layer; show what its kernel gets",
    "new": "begin a layer: a working skeleton from a model's op",
    "run": "run a layer on one op; compare it with a reference, and measure it",
    "stub": "make a layer that does nothing, to estimate what a network would gain",
    "tune": "measure local sizes, and write the best into the description",
}


class LayerCommand(Command):
    """Hands its arguments to the command that the first one names."""

    def main(self, program: str, arguments: Sequence[str]) -> int:
        name = arguments[0] if arguments else "--help"
        if name in ("--help", "-h", "-help", "help"):
            print(_help(program))
            return 0
        if name not in COMMANDS:
            raise usage_error(
                f"no command '{name}' of {program}", f"Give one of {', '.join(COMMANDS)}."
            )
        command: Command = import_module(f".layer.{name}", __package__).COMMAND
        return command.main(f"{program} {name}", arguments[1:])


def _help(program: str) -> str:
    lines = [f"  {program} {name:6}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "The loop of a kernel's author: an edit, a check, a run on one op, a measurement.",
            "",
            *lines,
            "",
            f"{program} COMMAND --help shows the command's flags.",
        ]
    )


COMMAND = LayerCommand("COMMAND\n", lambda flags: None, lambda flags, arguments: 0)
