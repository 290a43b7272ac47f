"""Names of a vendor.

Stamps and entry points use the manufacturer's name; files, directories and flags use variants.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

STOCK_NAMES = {"Google": "google_tensor"}
"""Names that stock LiteRT uses for a manufacturer in directories and flags, where the letters differ."""


def plain_name(name: str) -> str:
    """Returns a vendor's name in the common form of flags, files and directories.

    The common form is lower case, without `_` and `-`.
    """
    plain = _letters(name)
    return next((_letters(m) for m, s in STOCK_NAMES.items() if _letters(s) == plain), plain)


def is_option_of(manufacturer: str, option: str) -> bool:
    """Returns whether an option belongs to a manufacturer.

    `intel_openvino_graph_backends` belongs to IntelOpenVINO.
    """
    return bool(option_prefix(manufacturer, option))


def options_of(manufacturer: str, options: Mapping[str, str]) -> dict[str, str]:
    """Selects a manufacturer's options from the options of several manufacturers."""
    return {n: value for n, value in options.items() if is_option_of(manufacturer, n)}


def option_prefix(manufacturer: str, option: str) -> str:
    """Returns the part of an option's name that names the manufacturer, as spelled there; "" if there is none.

    Examples are `intel_openvino` in `intel_openvino_graph_backends`, in any case, and either
    `google` or `google_tensor` for `Google`.
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
