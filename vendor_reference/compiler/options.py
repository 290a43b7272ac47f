"""The reference vendor's own options: `--reference_ops=ADD,RELU`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from litert.core.errors import LiteRtError
from litert.core.status import Status

REFERENCE_OPS = "reference_ops"
"""Builtin ops that the NPU takes where it can: names with commas between them, or `all`."""

OPTIONS = (REFERENCE_OPS,)


def check_options(names: Iterable[str]) -> None:
    """Refuses what is no option of this vendor.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    for name in names:
        if name not in OPTIONS:
            near = get_close_matches(name, OPTIONS, 1)
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"no option '{name}'",
                "vendor 'Reference'",
                f"Do you mean '{near[0]}'?" if near else f"It has {', '.join(OPTIONS)}.",
            )
