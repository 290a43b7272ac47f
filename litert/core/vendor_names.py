"""Converts between the different forms of a vendor's name.

Stamps and entry points contain the manufacturer's name; files, directories and flags contain variants of this
name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

STOCK_NAMES = {"Google": "google_tensor"}
"""Maps a manufacturer's name to its name in stock LiteRT's directories and flags, if the letters differ."""


def plain_name(name: str) -> str:
    """Converts a vendor's name to the form that flags, files and directories have in common.

    The result is in lower case, without `_` and `-`.
    """
    plain = _letters(name)
    return next((_letters(m) for m, s in STOCK_NAMES.items() if _letters(s) == plain), plain)


def is_option_of(manufacturer: str, option: str) -> bool:
    """Returns whether an option belongs to a manufacturer's plugin.

    For example, the option `intel_openvino_graph_backends` belongs to the manufacturer IntelOpenVINO.
    """
    return bool(option_prefix(manufacturer, option))


def options_of(manufacturer: str, options: Mapping[str, str]) -> dict[str, str]:
    """Selects the options of one manufacturer from the options of several manufacturers."""
    return {n: value for n, value in options.items() if is_option_of(manufacturer, n)}


def option_prefix(manufacturer: str, option: str) -> str:
    """Returns the leading part of an option's name that is the manufacturer's name; "" if there is none.

    For example, the manufacturer's part of `intel_openvino_graph_backends` is `intel_openvino`. An option of
    `Google` may begin with `google` or `google_tensor`. The comparison ignores case.
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
