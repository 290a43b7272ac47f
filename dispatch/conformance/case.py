"""One NPU call to check a dispatch library with: byte code of the vendor's compiler, inputs, what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType


@dataclass(frozen=True, slots=True)
class Case:
    """A function of a byte code module.

    Attributes:
      name: of the model that it was compiled from, for people.
      inputs, outputs: types, all dimensions known.
      data: of the inputs.
      expected: of the outputs, as LiteRT's CPU kernels have them; None where they do not have the op.
      assets: by name, companions first.
    """

    name: str
    byte_code: bytes
    function: str
    inputs: Sequence[RankedTensorType]
    outputs: Sequence[RankedTensorType]
    data: Sequence[bytes]
    expected: Sequence[bytes] | None
    assets: Mapping[str, bytes]


def make_data(tensor_type: RankedTensorType, seed: int) -> bytes:
    """Values for an input: floats from -1 to 1, small integers of all signs, and 0 or 1 as an index might be."""
    import numpy as np

    generator = np.random.default_rng(seed)
    shape, dtype = tensor_type.shape, tensor_type.element_type.numpy_dtype
    if tensor_type.element_type is ElementType.BOOL:
        return generator.integers(0, 2, shape).astype(dtype).tobytes()
    if dtype.kind in "iu" and dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max + 1, shape).astype(dtype).tobytes()
    if dtype.kind in "iu":
        return generator.integers(0, 2, shape).astype(dtype).tobytes()
    return generator.uniform(-1, 1, shape).astype(dtype).tobytes()


def find_difference(
    tensor_type: RankedTensorType, expected: bytes, found: bytes, tolerance: float
) -> str:
    """How an output differs from the CPU's beyond what an NPU's arithmetic may do; "" where it does not.

    Args:
      tensor_type: of the output.
      expected: as the CPU has it.
      found: as the NPU has it; there may be more behind it.
      tolerance: for floats, as a part of the largest that is expected, or of 1 where that is more.
    """
    import numpy as np

    dtype = tensor_type.element_type.numpy_dtype
    size = tensor_type.size_bytes
    want: Any = np.frombuffer(expected, dtype)[: tensor_type.num_elements].astype(np.float64)
    have: Any = np.frombuffer(found[:size], dtype)[: tensor_type.num_elements].astype(np.float64)
    if dtype.kind in "iub":
        limit = 1.0 if dtype.itemsize < 4 and dtype.kind != "b" else 0.0
    else:
        limit = tolerance * max(1.0, float(np.max(np.abs(want), initial=0)))
    with np.errstate(invalid="ignore"):
        away = np.abs(have - want)
    away = np.where(np.isnan(have) & np.isnan(want) | (have == want), 0, away)
    away = np.where(np.isnan(away), np.inf, away)
    if not away.size or float(away.max()) <= limit:
        return ""
    worst = int(np.argmax(away))
    return f"element {worst} is {have[worst]:g}, and {want[worst]:g} on the CPU; {limit:g} may be between"
