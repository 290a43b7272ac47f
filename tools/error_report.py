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
      status: Name of the error's LiteRT status, such as NOT_FOUND.
      what: Description of the error, as a phrase.
      where: Place of the error: a file, an op, a tensor or a call of a vendor's function; empty if the error has
        no such place.
      hint: Hint for the user, in sentences; empty if there is no hint.
      exit_code: Exit status of the command: 2, or 130 if the command was interrupted.
    """

    status: str
    what: str
    where: str
    hint: str
    exit_code: int


def is_json_asked(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks for a JSON report on the standard output.

    The function does not parse the command line, since the error may be that the command line cannot be parsed. A
    command that writes its result to the standard output (`-`) prints neither its report nor a JSON error there.
    """
    words = [word.removeprefix("-") if word.startswith("--") else word for word in arguments]
    pairs = zip(words, [*words[1:], ""], strict=True)
    asks = "-report=json" in words or ("-report", "json") in pairs
    results = (word for word in words if not word.startswith("-err="))
    return asks and not any(word == STDOUT or word.endswith(f"={STDOUT}") for word in results)
