"""OpenCL C that kernels of the library share: how elements are read and written, one at a time or some.

Vectors go through types that are aligned as their elements are: `vload8` becomes eight loads in PoCL, and a plain
`float8*` must not point between vectors. Half elements are float in a kernel, so that no device needs fp16.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from litert.core.element_type import ElementType
from vendor_reference.custom_layers.cl_types import CL_TYPES

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
    """The types that `load` and `store` use for `size` elements."""
    return [
        f"typedef {name}{size} __attribute__((aligned(sizeof({name})))) KERNEL_{name};"
        for name in sorted(set(c_types) - {"half"})
    ]


def load(element_type: ElementType, compute: str, place: str, count: int) -> str:
    """The expression that reads elements at a pointer as another type: `float`, `int`, ...

    `count` is 1, or the size of a vector.
    """
    stored = CL_TYPES[element_type]
    if stored == "half":
        assert compute == "float"
        return f"vload_half(0, {place})" if count == 1 else f"vload_half{count}(0, {place})"
    if count == 1:
        return f"*({place})" if stored == compute else f"({compute})*({place})"
    value = f"*(const __global KERNEL_{stored}*)({place})"
    return value if stored == compute else f"convert_{compute}{count}({value})"


def store(element_type: ElementType, compute: str, place: str, value: str, count: int) -> str:
    """The statement that writes elements; arguments are those of `load`."""
    stored = CL_TYPES[element_type]
    if stored == "half":
        assert compute == "float"
        suffix = "" if count == 1 else str(count)
        return f"vstore_half{suffix}({value}, 0, {place});"
    if count == 1:
        return f"*({place}) = ({stored})({value});"
    converted = value if stored == compute else f"convert_{stored}{count}({value})"
    return f"*(__global KERNEL_{stored}*)({place}) = {converted};"


def quantized(element_type: ElementType, scaled: str, count: int) -> str:
    """The expression, of int, for floats in units of the scale, from the zero point on: rounded and saturated.

    Added to 1.5 * 2^23, a float's last bit is worth 1, and its low bits are the integer: a third of the time that
    `rint` takes in PoCL.
    """
    low, high = INTEGER_LIMITS[element_type]
    suffix = "" if count == 1 else str(count)
    return f"as_int{suffix}(clamp({scaled}, {low}.0f, {high}.0f) + 12582912.0f)"
