"""Element types, numbered as LiteRT's `LiteRtElementType` (TfLiteType, not the file's TensorType)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    import numpy as np


class ElementType(IntEnum):
    """What a tensor's elements are."""

    NONE = 0
    FLOAT32 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT16 = 10
    FLOAT64 = 11
    COMPLEX128 = 12
    UINT64 = 13
    RESOURCE = 14
    VARIANT = 15
    UINT32 = 16
    UINT16 = 17
    INT4 = 18
    BFLOAT16 = 19
    INT2 = 20
    UINT4 = 21
    FLOAT8_E4M3FN = 22
    FLOAT8_E5M2 = 23

    @property
    def bits(self) -> int:
        """Bits an element takes in memory; 0 where that is not fixed (STRING, RESOURCE, VARIANT)."""
        return _BITS[self]

    @property
    def mlir(self) -> str:
        """The type's name in MLIR's manner: `f32`, `i8`, `ui8`, `i1`."""
        return _MLIR[self]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of one element.

        Raises:
          LiteRtError: UNSUPPORTED, for types that NumPy has no element for (STRING, INT4, ...).
        """
        import numpy as np  # here, since a command that only reads a model must not pay for it

        name = _NUMPY.get(self)
        if name is None:
            raise LiteRtError(Status.UNSUPPORTED, f"{self.name} has no NumPy type")
        if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            import ml_dtypes

            extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
            return extended
        return np.dtype(name)

    @classmethod
    def from_numpy(cls, dtype: Any) -> ElementType:
        """The element type of a NumPy type (or of anything `numpy.dtype` takes).

        Raises:
          LiteRtError: UNSUPPORTED, if there is none.
        """
        import numpy as np

        try:
            name = np.dtype(dtype).name
        except TypeError:  # no type of NumPy's
            name = f"{dtype!r:.50}"
        found = _FROM_NUMPY.get(name)
        if found is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"no element type for NumPy's {name}",
                hint=f"Use one of {', '.join(sorted(_FROM_NUMPY))}.",
            )
        return found


_E = ElementType

_BITS = {
    _E.NONE: 0, _E.FLOAT32: 32, _E.INT32: 32, _E.UINT8: 8, _E.INT64: 64, _E.STRING: 0,
    _E.BOOL: 8, _E.INT16: 16, _E.COMPLEX64: 64, _E.INT8: 8, _E.FLOAT16: 16, _E.FLOAT64: 64,
    _E.COMPLEX128: 128, _E.UINT64: 64, _E.RESOURCE: 0, _E.VARIANT: 0, _E.UINT32: 32,
    _E.UINT16: 16, _E.INT4: 4, _E.BFLOAT16: 16, _E.INT2: 2, _E.UINT4: 4,
    _E.FLOAT8_E4M3FN: 8, _E.FLOAT8_E5M2: 8,
}  # fmt: skip

_MLIR = {
    _E.NONE: "none", _E.FLOAT32: "f32", _E.INT32: "i32", _E.UINT8: "ui8", _E.INT64: "i64",
    _E.STRING: "!tf_type.string", _E.BOOL: "i1", _E.INT16: "i16", _E.COMPLEX64: "complex<f32>",
    _E.INT8: "i8", _E.FLOAT16: "f16", _E.FLOAT64: "f64", _E.COMPLEX128: "complex<f64>",
    _E.UINT64: "ui64", _E.RESOURCE: "!tf_type.resource", _E.VARIANT: "!tf_type.variant",
    _E.UINT32: "ui32", _E.UINT16: "ui16", _E.INT4: "i4", _E.BFLOAT16: "bf16", _E.INT2: "i2",
    _E.UINT4: "ui4", _E.FLOAT8_E4M3FN: "f8E4M3FN", _E.FLOAT8_E5M2: "f8E5M2",
}  # fmt: skip

_NUMPY = {
    _E.FLOAT32: "float32", _E.INT32: "int32", _E.UINT8: "uint8", _E.INT64: "int64",
    _E.BOOL: "bool", _E.INT16: "int16", _E.COMPLEX64: "complex64", _E.INT8: "int8",
    _E.FLOAT16: "float16", _E.FLOAT64: "float64", _E.COMPLEX128: "complex128",
    _E.UINT64: "uint64", _E.UINT32: "uint32", _E.UINT16: "uint16", _E.BFLOAT16: "bfloat16",
    _E.FLOAT8_E4M3FN: "float8_e4m3fn", _E.FLOAT8_E5M2: "float8_e5m2",
}  # fmt: skip

_FROM_NUMPY = {name: element_type for element_type, name in _NUMPY.items()}
