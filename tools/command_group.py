"""A command of commands: `litert-npu layer new`. Each is a module of a folder beside this one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from .command import Command
from .command_line import usage_error
from .console import print_text


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Hands its arguments to the command that the first one names.

    Attributes:
      about: a sentence for its help.
      modules: where its commands are, relative to this package, with `{}` for a command's name.
      commands: what each does, by name.
    """

    about: str
    modules: str
    commands: Mapping[str, str]

    def main(self, program: str, arguments: Sequence[str]) -> int:
        """Runs a command line, as `Command.main` does."""
        name = arguments[0] if arguments else "--help"
        if name in ("--help", "-h", "-help", "help"):
            print_text(self._help(program), sys.stdout)
            return 0
        if name not in self.commands:
            raise usage_error(
                f"no command '{name}' of {program}", f"Give one of {', '.join(self.commands)}."
            )
        command: Command = import_module(self.modules.format(name), __package__).COMMAND
        return command.main(f"{program} {name}", arguments[1:])

    def _help(self, program: str) -> str:
        width = max(map(len, self.commands), default=0)
        lines = [f"  {program} {name:{width}}  {what}" for name, what in self.commands.items()]
        return "\n".join(
            [self.about, "", *lines, "", f"{program} COMMAND --help shows the command's flags."]
        )
