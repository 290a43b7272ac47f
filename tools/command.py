"""Commands of the command-line tools, and groups of commands, which parse a command line and run it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from litert.core.counts import count_text
from litert.core.errors import LiteRtError, describe, refusal_of
from litert.core.input_file import common_permissions
from litert.core.interrupts import interrupt_of
from litert.core.mapped_files import lost_bytes, mapped_files_guarded
from litert.core.option import Flag
from litert.core.quoting import continued
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

from .command_line import (
    COMMON,
    FlagValues,
    begin,
    check_op_infos,
    describe_flags,
    make_flags,
    split_arguments,
    usage_error,
)
from .console import drop_output, json_text, print_text, writing_to
from .help_text import help_entry, wrap_text
from .process_start import BROKEN_PIPE, ERROR, INTERRUPTED, ProcessEnd, after_ctrl_c
from .progress_bar import ProgressBar


class Command(NamedTuple):
    """One command of a command-line tool.

    Attributes:
      usage: The arguments on the first line, and a description of the command on the next lines.
      flags: The command's own flags.
      run: Function that does the work, with flags and arguments as parameters, and returns the exit status.
      num_arguments: Maximum number of arguments.
      num_optional: Number of arguments that are optional.
      choices: The values allowed for an argument; empty if any text is allowed.
      takes_vendor_options: Whether unknown flags are options of vendors. If so, `run` receives the unknown flags
        among its arguments, and separates them with `split_arguments`.
    """

    usage: str
    flags: Sequence[Flag]
    run: Callable[[FlagValues, Sequence[str]], int]
    num_arguments: int = 0
    num_optional: int = 0
    choices: Sequence[str] = ()
    takes_vendor_options: bool = False

    def main(self, program: str, arguments: Sequence[str]) -> int:
        """Parses a command line, runs the command, and returns the exit status."""
        flags = make_flags([*COMMON, *self.flags])
        hint = f"{program} --help lists the flags."
        rest = begin(flags, [program, *arguments], hint, self.takes_vendor_options)
        if flags.help:
            print_text(self._help(program, flags), sys.stdout)
            return 0
        count = len(split_arguments(rest)[0] if self.takes_vendor_options else rest)
        if not 0 <= self.num_arguments - count <= self.num_optional:
            check_op_infos(flags)
            expected = self.usage.partition("\n")[0]
            verb = "accepts at most" if self.num_optional else "needs"
            raise usage_error(
                f"the command {verb} {count_text(self.num_arguments, 'argument')}, but the command line "
                f"has {count}",
                f"Usage: {' '.join(filter(None, (program, expected)))} [flags]",
            )
        for argument in rest if self.choices else ():
            if argument not in self.choices:
                listed = f"Give one of {', '.join(self.choices)}."
                raise usage_error(
                    f"{program} does not know the {self.usage.partition(chr(10))[0].lower()} '{argument}'",
                    did_you_mean(argument, self.choices, listed),
                )
        return self.run(flags, rest)

    def _help(self, program: str, flags: FlagValues) -> str:
        arguments, _, about = self.usage.partition("\n")
        title = f"{program} {arguments} [flags]".replace("  ", " ")
        lines = [title, *wrap_text(about), "", "Flags:"]
        return "\n".join([*lines, *describe_flags(flags)])


@mapped_files_guarded()
def run_guarded(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Runs the `main` function of a program.

    Prints an error as one message to stderr; --debug also prints the traceback.

    With --report=json, an error is also printed to stdout as JSON, unless the report has already been printed to
    stdout.

    Args:
      main: Function that runs a command line and returns the exit status.
      arguments: Arguments for `main`; the first argument is the program's name.

    Returns:
      The exit status of the process.
    """
    has_reported = False
    try:
        with common_permissions():
            code = main(arguments)
        has_reported = True
        if lost := lost_bytes():
            raise lost
        with writing_to(sys.stdout):
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has closed the pipe
        drop_output(sys.stdout)
        return BROKEN_PIPE
    except BaseException as error:
        # The other error is caused by zeros that replace the missing bytes.
        lost = lost_bytes() if isinstance(error, Exception) else None
        explained, text = _explain(lost or error, os.path.basename(arguments[0]))
        is_cancelled = explained.status is Status.CANCELLED
        code = INTERRUPTED if is_cancelled else ERROR
        if "--debug" in arguments:
            traceback.print_exception(error)
        if is_cancelled and not ProgressBar.make_room():
            text = f"{after_ctrl_c()}{text}"
    with suppress(LiteRtError):  # there is no other stream for the message
        print_text(text, sys.stderr)
    if not has_reported:
        with suppress(LiteRtError, BrokenPipeError):
            _print_error_report(arguments, explained, code)
    return code


def _print_error_report(arguments: Sequence[str], error: LiteRtError, code: int) -> None:
    from .error_report import ErrorReport, is_json_asked  # here: most commands have no error

    if is_json_asked(arguments):
        report = ErrorReport(error.status.name, error.what, error.where, error.hint, code)
        print_text(json_text(report.to_values()), sys.stdout)


def _explain(error: BaseException, program: str) -> tuple[LiteRtError, str]:
    """Returns the error that ends a program, as a LiteRtError, and the message for the user."""
    if not isinstance(error, LiteRtError):
        error = interrupt_of(error) or refusal_of(error) or error
    if isinstance(error, LiteRtError):
        return error, continued(str(error))
    if isinstance(error, KeyboardInterrupt):
        kept = ". ".join(map(str, error.args))
        cancelled = LiteRtError(Status.CANCELLED, "interrupted", hint=kept)
        return cancelled, "CANCELLED: " + ". ".join(["interrupted", *error.args])
    if isinstance(
        error, (SystemExit, ProcessEnd)
    ):  # not from our `main`: a vendor's driver or a library ends the process
        status, hint = Status.RUNTIME_FAILURE, "--debug shows this code."
        what = f"code that {program} called has tried to end the process: {describe(error)}"
    else:
        status, what = Status.UNKNOWN, describe(error)
        hint = f"This is a defect of {program}: report it, with the output of --debug."
    return LiteRtError(status, what, hint=hint), f"{status.name}: {what}. {hint}"


class CommandGroup(NamedTuple):
    """A group of commands; the first argument is the name of the command to run.

    Attributes:
      about: A sentence about the group of commands, for the help text.
      modules: Pattern of the commands' module names, relative to this package, with `{}` for the command's name.
      commands: Short descriptions of the commands, by name.
    """

    about: str
    modules: str
    commands: Mapping[str, str]

    def main(self, program: str, arguments: Sequence[str]) -> int:
        """Runs a command line, in the same way as `Command.main`."""
        name = arguments[0] if arguments else "--help"
        if name in ("--help", "-h", "-help", "help", "--helpfull"):
            print_text(self._help(program), sys.stdout)
            return 0
        if name not in self.commands:
            listed = f"Give one of {', '.join(self.commands)}."
            raise usage_error(
                f"{program} has no command '{name}'", did_you_mean(name, self.commands, listed)
            )
        command: Command = import_module(self.modules.format(name), __package__).COMMAND
        return command.main(f"{program} {name}", arguments[1:])

    def _help(self, program: str) -> str:
        rows = [(f"{program} {name}", what) for name, what in self.commands.items()]
        column = 4 + max((len(name) for name, _ in rows), default=0)
        lines = [line for name, what in rows for line in help_entry(name, what, column)]
        closing = wrap_text(f"{program} COMMAND --help shows the command's flags.")
        return "\n".join([*wrap_text(self.about), "", *lines, "", *closing])
