"""A command of a tool, or a group of them: flags and arguments in, an exit status out; errors as one message."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from litert.core.errors import LiteRtError, describe, refusal_of
from litert.core.input_file import common_permissions
from litert.core.interrupts import interrupt_of
from litert.core.mapped_files import lost_bytes, mapped_files_guarded
from litert.core.option import Flag
from litert.core.quoting import continued
from litert.core.status import Status

from .command_line import (
    COMMON,
    FlagValues,
    begin,
    describe_flags,
    make_flags,
    split_arguments,
    usage_error,
)
from .console import count_text, drop_output, print_text, writing_to
from .process_start import BROKEN_PIPE, ERROR, INTERRUPTED, ProcessEnd, after_ctrl_c
from .progress_bar import ProgressBar


class Command(NamedTuple):
    """One command of a tool.

    Attributes:
      usage: arguments, then a blank line and what the command does.
      flags: its own.
      run: does it, given flags and arguments; returns the exit status.
      num_arguments: how many arguments there are at most.
      num_optional: how many of them may be left out.
      takes_vendor_options: whether flags that it does not know are options of vendors, which `run` gets among the
        arguments, for `split_arguments`.
    """

    usage: str
    flags: Sequence[Flag]
    run: Callable[[FlagValues, Sequence[str]], int]
    num_arguments: int = 0
    num_optional: int = 0
    takes_vendor_options: bool = False

    def main(self, program: str, arguments: Sequence[str]) -> int:
        """Parses a command line and runs it; returns the exit status."""
        flags = make_flags([*COMMON, *self.flags])
        hint = f"{program} --help lists the flags."
        rest = begin(flags, [program, *arguments], hint, self.takes_vendor_options)
        if flags.help:
            print_text(self._help(program, flags), sys.stdout)
            return 0
        count = len(split_arguments(rest)[0] if self.takes_vendor_options else rest)
        if not 0 <= self.num_arguments - count <= self.num_optional:
            expected = self.usage.partition("\n")[0]
            raise usage_error(
                f"{count_text(count, 'argument')}, not {self.num_arguments}",
                f"Usage: {program} {expected} [flags]",
            )
        return self.run(flags, rest)

    def _help(self, program: str, flags: FlagValues) -> str:
        arguments, _, about = self.usage.partition("\n")
        lines = [f"{program} {arguments} [flags]".replace("  ", " "), about, "", "Flags:"]
        return "\n".join([*lines, *describe_flags(flags)])


@mapped_files_guarded()
def run_guarded(
    main: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    exit_status: Callable[[Status], int] = lambda status: ERROR,
) -> int:
    """Runs a main; an error is one message to stderr, with --debug also its traceback.

    Args:
      main: given the arguments, which begin with the program's name; returns the exit status.
      arguments: for it.
      exit_status: of an error.
    """
    try:
        with common_permissions():
            code = main(arguments)
        if lost := lost_bytes():
            raise lost
        with writing_to(sys.stdout):
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of a pipe has seen enough
        drop_output(sys.stdout)
        return BROKEN_PIPE
    except BaseException as error:
        # What else is wrong comes of zeros in place of the bytes.
        lost = lost_bytes() if isinstance(error, Exception) else None
        status, text = _explain(lost or error, os.path.basename(arguments[0]))
        if "--debug" in arguments:
            traceback.print_exception(error)
        if status is Status.CANCELLED and not ProgressBar.make_room():
            text = f"{after_ctrl_c()}{text}"
    with suppress(LiteRtError):  # there is nowhere else to say it
        print_text(text, sys.stderr)
    return INTERRUPTED if status is Status.CANCELLED else exit_status(status)


def _explain(error: BaseException, program: str) -> tuple[Status, str]:
    """The status of an error that ends a program, and what people read."""
    if not isinstance(error, LiteRtError):
        error = interrupt_of(error) or refusal_of(error) or error
    if isinstance(error, LiteRtError):
        return error.status, continued(str(error))
    if isinstance(error, KeyboardInterrupt):
        status, what = Status.CANCELLED, ". ".join(["interrupted", *error.args])
    elif isinstance(
        error, (SystemExit, ProcessEnd)
    ):  # no main of ours: what a vendor's driver or a library does
        status = Status.RUNTIME_FAILURE
        what = f"code that it called has tried to end the process: {describe(error)}. --debug shows where."
    else:
        status = Status.UNKNOWN
        what = f"{describe(error)}. This is a defect of {program}; --debug shows where."
    return status, f"{status.name}: {what}"


class CommandGroup(NamedTuple):
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
        if name in ("--help", "-h", "-help", "help", "--helpfull"):
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
