"""A command line: flags and arguments in, an exit status out; errors as one message."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.status import Status

from .console import print_text

if TYPE_CHECKING:
    from absl.flags import FlagValues

_WIDTH = 100
_FLAG_COLUMN = 30


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a tool.

    Attributes:
      usage: arguments, then a blank line and what the command does.
      define_flags: defines its flags.
      run: does it, given flags and arguments; returns the exit status.
      num_arguments: how many arguments there must be.
    """

    usage: str
    define_flags: Callable[[FlagValues], None]
    run: Callable[[FlagValues, Sequence[str]], int]
    num_arguments: int = 0

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
            rest: list[str] = flags([program, *arguments])[1:]
        except absl_flags.Error as error:
            raise usage_error(str(error), f"{program} --help lists the flags.") from None
        if flags.help:
            print_text(self._help(program, flags), sys.stdout)
            return 0
        if flags.debug:
            import logging

            logging.basicConfig(level=logging.DEBUG)
        if len(rest) != self.num_arguments:
            expected = self.usage.partition("\n")[0]
            raise usage_error(
                f"{len(rest)} arguments, not {self.num_arguments}",
                f"Usage: {program} {expected} [flags]",
            )
        return self.run(flags, rest)

    def _help(self, program: str, flags: FlagValues) -> str:
        from textwrap import wrap

        arguments, _, about = self.usage.partition("\n")
        lines = [f"{program} {arguments} [flags]".replace("  ", " "), about, "", "Flags:"]
        for name in flags:
            flag = flags[name]
            if len(name) == 1:  # the short name of another
                continue
            shown = f"--[no]{name}" if flag.boolean else f"--{name}"
            default = f" Default: {flag.default}." if flag.default and not flag.boolean else ""
            text = wrap(f"{flag.help}{default}", _WIDTH - _FLAG_COLUMN)
            lines.append(f"  {shown:{_FLAG_COLUMN - 4}}  {text[0]}")
            lines += [" " * _FLAG_COLUMN + line for line in text[1:]]
        return "\n".join(lines)


def usage_error(what: str, hint: str) -> LiteRtError:
    """The error of a wrong command line."""
    return LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=hint)


def run_guarded(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Runs a main; an error is one message to stderr and the exit status 1, with --debug also its traceback."""
    try:
        status = main(arguments)
        sys.stdout.flush()
        return status
    except LiteRtError as error:
        text = str(error)
    except KeyboardInterrupt:
        text = "CANCELLED: interrupted"
    except MemoryError:
        text = f"{Status.MEMORY_ALLOCATION_FAILURE.name}: out of memory"
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        text = (
            f"UNKNOWN: {type(error).__name__}: {error}. "
            "This is a defect of litert-npu; --debug shows where."
        )
    if "--debug" in arguments:
        traceback.print_exc()
    print_text(text, sys.stderr)
    return 130 if text.startswith("CANCELLED") else 1
