"""A command line: flags and arguments in, an exit status out; errors as one message."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status

from .console import drop_output, print_text, writing_to
from .destinations import STDOUT
from .interrupts import INTERRUPTED
from .wording import count_text

if TYPE_CHECKING:
    from absl.flags import Flag, FlagValues

_WIDTH = 100
_FLAG_COLUMN = 30


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a tool.

    Attributes:
      usage: arguments, then a blank line and what the command does.
      define_flags: defines its flags.
      run: does it, given flags and arguments; returns the exit status.
      num_arguments: how many arguments there are at most.
      num_optional: how many of them may be left out.
      takes_vendor_options: whether flags that it does not know are options of vendors, which `run` gets among the
        arguments, for `split_arguments`.
    """

    usage: str
    define_flags: Callable[[FlagValues], None]
    run: Callable[[FlagValues, Sequence[str]], int]
    num_arguments: int = 0
    num_optional: int = 0
    takes_vendor_options: bool = False

    def main(self, program: str, arguments: Sequence[str]) -> int:
        """Parses a command line and runs it.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG for a wrong command line; what the command raises.
        """
        from absl import flags as absl_flags  # here: the list of commands needs no flags

        flags = absl_flags.FlagValues()  # type: ignore[no-untyped-call]
        flags.set_gnu_getopt(True)  # flags may follow arguments
        absl_flags.DEFINE_bool("help", False, "Shows this.", short_name="h", flag_values=flags)
        absl_flags.DEFINE_bool(
            "debug", False, "Shows where an error arose, and logs.", flag_values=flags
        )
        self.define_flags(flags)
        try:
            command_line = [program, *arguments]
            rest: list[str] = flags(command_line, known_only=self.takes_vendor_options)[1:]
        except absl_flags.Error as error:
            raise usage_error(str(error), f"{program} --help lists the flags.") from None
        if flags.help:
            print_text(self._help(program, flags), sys.stdout)
            return 0
        if flags.debug:
            import logging

            logging.basicConfig(level=logging.DEBUG)
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


def split_arguments(rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """Positional arguments, and flags that are not the command's own; behind `--` there are no flags."""
    paths: list[str] = []
    unknown: list[str] = []
    for place, argument in enumerate(rest):
        if argument == "--":
            paths += rest[place + 1 :]
            break
        (unknown if argument.startswith("-") and argument != STDOUT else paths).append(argument)
    return paths, unknown


def describe_flags(flags: FlagValues) -> list[str]:
    """Lines that say what each flag does."""
    from textwrap import wrap

    lines: list[str] = []
    for name in flags:
        flag = flags[name]
        if flag.name != name:  # its short name
            continue
        shown = f"--[no]{name}" if flag.boolean else f"--{name}"
        text = wrap(_explanation(flag), _WIDTH - _FLAG_COLUMN)
        if len(shown) > _FLAG_COLUMN - 4:
            lines.append(f"  {shown}")
            text.insert(0, "")
        else:
            lines.append(f"  {shown:{_FLAG_COLUMN - 4}}  {text[0]}")
        lines += [" " * _FLAG_COLUMN + line for line in text[1:]]
    return lines


def _explanation(flag: Flag[Any]) -> str:
    """A flag's help, and what it is where it is not given."""
    text, repeats, _ = str(flag.help).partition(";\n    repeat this option")
    if repeats:
        text += " May be repeated."
    default = flag.default
    if flag.boolean or default in (None, "", []):
        return text
    shown = ",".join(map(str, default)) if isinstance(default, list) else default
    return f"{text} Default: {shown}."


def usage_error(what: str, hint: str = "See --help.") -> LiteRtError:
    """The error of a wrong command line."""
    return LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=hint)


def run_guarded(
    main: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    exit_status: Callable[[Status], int] = lambda status: 1,
) -> int:
    """Runs a main; an error is one message to stderr, with --debug also its traceback.

    Args:
      main: given the arguments; returns the exit status.
      arguments: with the program's name.
      exit_status: of an error.
    """
    try:
        status = main(arguments)
        with writing_to(sys.stdout):
            sys.stdout.flush()
        return status
    except LiteRtError as error:
        caught: BaseException = error
        cancelled = error.status is Status.CANCELLED
        status, text = INTERRUPTED if cancelled else exit_status(error.status), str(error)
    except KeyboardInterrupt as error:
        caught = error
        status, text = INTERRUPTED, "CANCELLED: interrupted"
    except MemoryError as error:
        caught = error
        status = exit_status(Status.MEMORY_ALLOCATION_FAILURE)
        text = f"{Status.MEMORY_ALLOCATION_FAILURE.name}: out of memory"
    except SystemExit as error:  # no main of ours: what a vendor's driver or a library does
        caught = error
        status = exit_status(Status.RUNTIME_FAILURE)
        text = (
            f"{Status.RUNTIME_FAILURE.name}: code that it called has tried to end the process: "
            f"{describe(error)}. --debug shows where."
        )
    except BrokenPipeError:  # the reader of a pipe has seen enough
        drop_output(sys.stdout)
        return 1
    except Exception as error:
        caught = error
        status = exit_status(Status.UNKNOWN)
        program = os.path.basename(arguments[0])
        text = f"UNKNOWN: {describe(error)}. This is a defect of {program}; --debug shows where."
    if "--debug" in arguments:
        traceback.print_exception(caught)
    with suppress(LiteRtError):  # there is nowhere else to say it
        print_text(text, sys.stderr)
    return status
