"""What an exported table is told where the host has no options for it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from litert.core.errors import LiteRtError
from litert.core.status import Status

OPTIONS_VARIABLE = "LITERT_NPU_DISPATCH_OPTIONS"


def parse_options(host_text: str) -> Mapping[str, str]:
    """The vendor's options: those of `$LITERT_NPU_DISPATCH_OPTIONS`, and over them the host's.

    Args:
      host_text: `name=value;name=value`, as the variable has them.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a part without `=`.
    """
    return {
        **_parse(os.environ.get(OPTIONS_VARIABLE, ""), f"${OPTIONS_VARIABLE}"),
        **_parse(host_text, "the host's options"),
    }


def _parse(text: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"'{part}' is no option",
                where,
                "Write name=value;name=value.",
            )
        found[name] = value
    return found
