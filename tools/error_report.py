"""The error of a command as JSON, for programs that asked for `--report=json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.plain_report import PlainReport

from .destinations import STDOUT


@dataclass(frozen=True, slots=True)
class ErrorReport(PlainReport):
    """The error that ended a command.

    Attributes:
      status: Name of the LiteRT status, such as NOT_FOUND.
      what: What is wrong, as a phrase.
      where: Place of the error: a file, an op, a tensor or a call of the vendor; empty if there is no such place.
      hint: What the user can do, in sentences; empty if there is nothing to do.
      exit_code: Exit status of the command: 2, or 130 if the command was interrupted.
    """

    status: str
    what: str
    where: str
    hint: str
    exit_code: int


def is_json_asked(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks for its report as JSON on the standard output.

    The arguments are read as they are, since the error may be that they cannot be parsed. A command that writes
    its result to the standard output (`-`) prints its report elsewhere, and no JSON error either.
    """
    words = [word.removeprefix("-") if word.startswith("--") else word for word in arguments]
    pairs = zip(words, [*words[1:], ""], strict=True)
    asks = "-report=json" in words or ("-report", "json") in pairs
    results = (word for word in words if not word.startswith("-err="))
    return asks and not any(word == STDOUT or word.endswith(f"={STDOUT}") for word in results)
