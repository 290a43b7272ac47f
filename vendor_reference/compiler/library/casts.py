"""The same numbers as other elements: real numbers towards zero and saturated, integers modulo their size."""

from __future__ import annotations

from litert.core.element_type import ElementType
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.elementwise import Operand, elementwise_kernel
from vendor_reference.compiler.library.view import View

_E = ElementType

_LEAST = {
    _E.INT8: "-128", _E.INT16: "-32768", _E.INT32: "-2147483648", _E.INT64: "-9223372036854775808",
}  # fmt: skip
"""Of signed integers; the others' is 0. Both types of real numbers have these."""

_MOST = {
    _E.INT8: "127", _E.UINT8: "255", _E.INT16: "32767", _E.UINT16: "65535",
    _E.INT32: "2147483647", _E.UINT32: "4294967295",
    _E.INT64: "9223372036854774784", _E.UINT64: "18446744073709549568",
}  # fmt: skip
"""The greatest numbers of `double` that integers can be."""

_MOST_FLOAT = {
    **_MOST, _E.INT32: "2147483520", _E.UINT32: "4294967040",
    _E.INT64: "9223371487098961920", _E.UINT64: "18446742974197923840",
}  # fmt: skip
"""The greatest numbers of `float`."""

_COMPUTED_AS = {
    _E.FLOAT16: "float", _E.FLOAT32: "float", _E.FLOAT64: "double",
    _E.INT64: "long", _E.UINT64: "ulong", _E.UINT32: "uint",
}  # fmt: skip


def cast_kernel(title: str, source: View, result: View) -> KernelSpec:
    """The kernel that casts output 0 from input 0.

    All but zero is true, and what is no number becomes the greatest integer. A double becomes a half by way of a
    float.
    """
    from_type, to_type = source.element_type, result.element_type
    compute = _COMPUTED_AS.get(from_type, "int")
    expression = "a"
    if to_type is _E.BOOL:
        expression = "a != 0 ? 1 : a"
    elif compute in ("float", "double") and to_type in _MOST:
        suffix = ".0f" if compute == "float" else ".0"
        most = f"{(_MOST_FLOAT if compute == 'float' else _MOST)[to_type]}{suffix}"
        least = f"{_LEAST.get(to_type, '0')}{suffix}"
        expression = f"a < {least} ? {least} : a < {most} ? a : {most}"
    if to_type is _E.FLOAT16:
        compute = "float"
    return elementwise_kernel(title, expression, compute, [Operand(source)], Operand(result))
