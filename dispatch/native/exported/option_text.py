"""Reads a vendor's options from a text that the host passes, and from an environment variable."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from litert.core.errors import LiteRtError
from litert.core.status import Status

_OPTION = re.compile(
    r"""\s*([^=;\n]+?)\s*=\s*("(?:\\.|[^"\\\n])*"|'[^'\n]*'|[^;\n]*?)[^\S\n]*(?:[;\n]\s*|$)"""
)

OPTIONS_VARIABLE = "LITERT_NPU_DISPATCH_OPTIONS"


def parse_options(host_text: str) -> Mapping[str, str]:
    """Returns the options from `$LITERT_NPU_DISPATCH_OPTIONS` and the host; the host's take precedence."""
    variable = os.environ.get(OPTIONS_VARIABLE, "")
    return {**parse_text(variable, f"${OPTIONS_VARIABLE}"), **parse_text(host_text)}


def parse_text(text: str, where: str = "the host's options") -> Mapping[str, str]:
    """Returns the options in a text, by name.

    Args:
      text: Options in the form `name=value`, separated by semicolons or line breaks; a value may be quoted as in
        TOML.
      where: Where the text comes from, for messages.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a part of the text does not have the form `name=value`.
    """
    found: dict[str, str] = {}
    place, text = 0, text.strip()
    while place < len(text):
        match = _OPTION.match(text, place)
        if match is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"expected an option of the form name=value, but found '{text[place:]}'",
                where,
                "Separate options by semicolons: name=value;name=value.",
            )
        name, value = match.groups()
        found[name] = _unquoted(value)
        place = match.end()
    return found


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1]
    try:
        return str(json.loads(value)) if value.startswith('"') else value
    except ValueError:  # not valid JSON: the text is used unchanged
        return value
