"""OpenCL C that kernels of the library share: names, and types of vectors.

Vectors go through types that are aligned as their elements are: `vload8` becomes eight loads in PoCL, and a plain
`float8*` must not point between vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from litert.core.element_type import ElementType

CHUNK = 1024
"""Elements for a work item: launching it costs about as much as 100 of them."""

ALONE = ("1", "1", "1")
"""Local sizes: each work item is a group. Those that PoCL chooses are many, and it compiles a kernel for each; and
Intel's driver would join the rows of neighbouring work items to vectors, whose elements it has to gather."""

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


def vector_size(c_types: Iterable[str]) -> int:
    """How many elements make a vector where these types occur: vectors of 64 bytes crash PoCL 3.0."""
    return 4 if {"double", "long", "ulong"} & set(c_types) else 8


def vector_typedefs(c_types: Iterable[str], size: int) -> list[str]:
    """The types of `size` elements that lie anywhere in memory."""
    return [
        f"typedef {name}{size} __attribute__((aligned(sizeof({name})))) KERNEL_{name};"
        for name in sorted(set(c_types) - {"half"})
    ]
