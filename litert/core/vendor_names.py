"""A vendor's names: its manufacturer's in stamps and entry points, and others in files, folders and flags."""

from __future__ import annotations

import re
from collections.abc import Mapping

STOCK_NAMES = {"Google": "google_tensor"}
"""What stock's folders and flags call a manufacturer, where letters differ."""


def plain_name(name: str) -> str:
    """A vendor's name as flags, files and folders agree on it: without case, `_` and `-`; the manufacturer's."""
    plain = _letters(name)
    return next((_letters(m) for m, s in STOCK_NAMES.items() if _letters(s) == plain), plain)


def is_option_of(manufacturer: str, option: str) -> bool:
    """Whether an option is a manufacturer's: `intel_openvino_graph_backends` is IntelOpenVINO's."""
    return bool(option_prefix(manufacturer, option))


def options_of(manufacturer: str, options: Mapping[str, str]) -> dict[str, str]:
    """A manufacturer's among the options of several."""
    return {n: value for n, value in options.items() if is_option_of(manufacturer, n)}


def option_prefix(manufacturer: str, option: str) -> str:
    """The part of an option's name that is a manufacturer's, as it is spelled there; "" where there is none.

    `intel_openvino` of `intel_openvino_graph_backends`, whatever its case; and for `Google` either of `google` and
    `google_tensor`.
    """
    plain = plain_name(manufacturer)
    others = [_letters(stock) for m, stock in STOCK_NAMES.items() if _letters(m) == plain]
    for letters in (*others, plain):
        pattern = "[_-]*".join(map(re.escape, letters))
        if match := re.match(rf"([_-]*{pattern})[_-]*[^_-]", option, re.IGNORECASE):
            return match[1]
    return ""


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
