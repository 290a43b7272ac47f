"""Names and types of the kernels that the compiler writes as OpenCL C."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from litert.core.element_type import ElementType

_E = ElementType

UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
"""What elements are moved as, by their bits."""

INTEGER_LIMITS: Mapping[ElementType, tuple[int, int]] = {
    _E.INT8: (-128, 127), _E.UINT8: (0, 255), _E.INT16: (-32768, 32767),
}  # fmt: skip
"""Least and greatest value of the types that are quantized to."""


def name_kernel(title: str, text: str) -> tuple[str, str]:
    """A kernel's name, and its text with it for each `KERNEL`.

    No two texts have the same names, so that kernels can be joined to one program: to build that takes a fifth of
    the time of a program for each.
    """
    entry = f"{title.lower()}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return entry, text.replace("KERNEL", entry)
