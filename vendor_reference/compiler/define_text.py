"""Values become text behind a `#define`.

Floats are written as C reads them back exactly, with an `f` where a float can hold them: a kernel that
multiplies by an option should not compute in double.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.value_sources import Scalar, Value

_FLOAT_MAX = 3.4028234663852886e38


def define_text(value: Value, define_type: str = "", is_plain: bool = False) -> str:
    """The text for a value.

    Args:
      value: a number or text, or several.
      define_type: `int`, `float`, `int[]`, `float[]`, or "" for the value as it is, where the elements of
        an array are joined by commas.
      is_plain: whether the value is as it is also where there is a type, which then says only whether it stands in
        braces: so custom layer configurations have it.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the value is not of that type, or a text cannot stand in a define.
    """
    if isinstance(value, (bool, int, float, str)):
        values: Sequence[Scalar] = (value,)
        is_array = False
    else:
        values, is_array = value, True
    element_type = define_type.removesuffix("[]")
    text = ",".join(_typed(v, "" if is_plain else element_type) for v in values)
    if element_type != define_type:
        return f"({define_type}) {{{text}}}"
    if is_array and define_type and not is_plain:
        raise _error(f"{len(values)} values where one {define_type} is expected")
    return text


def is_define_text(text: str) -> bool:
    """Whether a text can stand behind a `#define` and means itself there, and the next line is safe."""
    return (
        text.isprintable()
        and "//" not in text
        and "/*" not in text
        and not text.rstrip().endswith("\\")
        and text.count('"') % 2 == 0
        and text.count("'") % 2 == 0
    )


def _typed(value: Scalar, element_type: str) -> str:
    if isinstance(value, str):
        if element_type:
            raise _error(f"the text '{value}' where {element_type} is expected")
        if not is_define_text(value):
            raise _error(f"the text {value[:40]!r}, which a #define cannot hold")
        return value
    if element_type == "float" or (isinstance(value, float) and not element_type):
        return _float(float(value))
    if isinstance(value, float) and not value.is_integer():
        raise _error(f"{value} where int is expected")
    return _int(int(value))


def _float(value: float) -> str:
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return repr(value) + ("f" if abs(value) <= _FLOAT_MAX else "")


def _int(value: int) -> str:
    if value == -(2**63):
        return "(-9223372036854775807L - 1)"
    return f"{value}UL" if value >= 2**63 else str(value)


def _error(what: str) -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, what)
