"""The commands, flags and values of this project's programs, for completion in a shell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from litert.core.option import Flag

from .command import Command, CommandGroup
from .command_line import COMMON, VERSION
from .litert_npu import COMMANDS

APPLY_PLUGIN = ("apply_plugin", "apply_plugin_main")
"""The names under which `apply_plugin` is installed."""


@dataclass(frozen=True, slots=True)
class CommandWords:
    """Words that may follow the name of a program, a group of commands or a command.

    Attributes:
      commands: The commands of a group, with a description of each command.
      flags: The flags of a command.
      choices: The values allowed for an argument; empty if the argument is a file name.
    """

    commands: Mapping[str, str] = field(default_factory=dict)
    flags: Sequence[Flag] = ()
    choices: Sequence[str] = ()


def find_programs() -> dict[str, CommandWords]:
    """Returns the words of each program, group and command, by full name, such as `litert-npu run`."""
    from .apply_command_line import all_flags
    from .layer.layer_flags import REFERENCE_FLAGS

    applying = CommandWords(flags=[*all_flags(), *REFERENCE_FLAGS])
    group = CommandGroup("", ".{}_command", COMMANDS)
    return {
        **dict.fromkeys(APPLY_PLUGIN, applying),
        **dict(_group_words("litert-npu", group, (VERSION,), REFERENCE_FLAGS)),
    }


def _group_words(
    name: str, group: CommandGroup, flags: Sequence[Flag], vendor_flags: Sequence[Flag]
) -> Iterator[tuple[str, CommandWords]]:
    yield name, CommandWords(group.commands, (*COMMON[:1], *flags))
    for command_name in group.commands:
        module = import_module(group.modules.format(command_name), __package__)
        command: Command | CommandGroup = module.COMMAND
        whole = f"{name} {command_name}"
        if isinstance(command, CommandGroup):
            yield from _group_words(whole, command, (), vendor_flags)
        else:
            more = vendor_flags if command.takes_vendor_options else ()
            yield (
                whole,
                CommandWords(flags=[*COMMON, *command.flags, *more], choices=command.choices),
            )


def flag_words(flag: Flag) -> list[str]:
    """Returns the spellings of a flag, such as `--report` and `-o`.

    If the flag is on by default, the spelling turns it off, such as `--nocheck_kernels`.
    """
    off = "no" if flag.default is True else ""
    words = [f"-{flag.name}" if len(flag.name) == 1 else f"--{off}{flag.name}"]
    return [*words, f"-{flag.short_name}"] if flag.short_name else words


def takes_value(flag: Flag) -> bool:
    """Returns whether a value follows a flag."""
    return not isinstance(flag.default, bool)


def is_number(flag: Flag) -> bool:
    """Returns whether the value of a flag is a number."""
    return takes_value(flag) and isinstance(flag.default, int | float | None)


def is_list(flag: Flag) -> bool:
    """Returns whether the value of a flag is a list separated by commas."""
    return not isinstance(flag.default, bool | int | float | str | None)
