"""Element types, numbered as in LiteRT's `LiteRtElementType` (like TfLiteType, unlike the file's TensorType)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    import numpy as np


class ElementType(IntEnum):
    """The type of a tensor's elements.

    Attributes:
      bits: Number of bits of an element in memory; 0 if the size varies (STRING, RESOURCE, VARIANT).
      mlir: The type's name in MLIR, such as `f32`, `i8`, `ui8` or `i1`.
    """

    bits: int
    mlir: str
    _numpy: str

    NONE = 0, 0, "none"
    FLOAT32 = 1, 32, "f32", "float32"
    INT32 = 2, 32, "i32", "int32"
    UINT8 = 3, 8, "ui8", "uint8"
    INT64 = 4, 64, "i64", "int64"
    STRING = 5, 0, "!tf_type.string"
    BOOL = 6, 8, "i1", "bool"
    INT16 = 7, 16, "i16", "int16"
    COMPLEX64 = 8, 64, "complex<f32>", "complex64"
    INT8 = 9, 8, "i8", "int8"
    FLOAT16 = 10, 16, "f16", "float16"
    FLOAT64 = 11, 64, "f64", "float64"
    COMPLEX128 = 12, 128, "complex<f64>", "complex128"
    UINT64 = 13, 64, "ui64", "uint64"
    RESOURCE = 14, 0, "!tf_type.resource"
    VARIANT = 15, 0, "!tf_type.variant"
    UINT32 = 16, 32, "ui32", "uint32"
    UINT16 = 17, 16, "ui16", "uint16"
    INT4 = 18, 4, "i4"
    BFLOAT16 = 19, 16, "bf16", "bfloat16"
    INT2 = 20, 2, "i2"
    UINT4 = 21, 4, "ui4"
    FLOAT8_E4M3FN = 22, 8, "f8E4M3FN", "float8_e4m3fn"
    FLOAT8_E5M2 = 23, 8, "f8E5M2", "float8_e5m2"

    def __new__(cls, number: int, bits: int = 0, mlir: str = "", numpy: str = "") -> ElementType:
        member = int.__new__(cls, number)
        member._value_ = number
        member.bits, member.mlir, member._numpy = bits, mlir, numpy
        return member

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Returns the NumPy type of one element.

        Raises:
          LiteRtError: UNSUPPORTED, if NumPy has no type for such elements (STRING, INT4, ...).
        """
        # Imported here, because a command that only reads a model must not pay for NumPy
        import numpy as np

        if not self._numpy:
            raise LiteRtError(
                Status.UNSUPPORTED, f"NumPy has no type for the element type {self.name}"
            )
        if self._numpy.startswith(("bfloat", "float8")):
            import ml_dtypes  # noqa: F401 (NumPy knows them once it is imported)
        return np.dtype(self._numpy)

    @classmethod
    def from_numpy(cls, dtype: Any) -> ElementType:
        """Returns the element type of a NumPy type, or of any value that `numpy.dtype` accepts.

        Raises:
          LiteRtError: UNSUPPORTED, if no element type corresponds to the NumPy type.
        """
        import numpy as np

        try:
            name = np.dtype(dtype).name
            problem = f"no element type corresponds to the NumPy type {name}"
        except TypeError:
            name, problem = "", f"{dtype!r:.50} is not a NumPy type"
        found = _FROM_NUMPY.get(name)
        if found is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                problem,
                hint=f"Use one of {', '.join(sorted(_FROM_NUMPY))}.",
            )
        return found


_FROM_NUMPY = {kind._numpy: kind for kind in ElementType if kind._numpy}
