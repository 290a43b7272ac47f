"""Converts tensor types and quantization between C and Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import (
    BlockwiseQuantization,
    ConstantTensor,
    Quantization,
    QuantizationKind,
)
from litert.core.status import Status
from litert.core.tensor_type import Layout, RankedTensorType

MAX_RANK = 8
"""Largest rank that `LiteRtLayout` can hold."""


def to_c(tensor_type: RankedTensorType, target: Any) -> None:
    """Writes a tensor type to a `LiteRtRankedTensorType*`.

    Raises:
      LiteRtError: UNSUPPORTED, if the rank is above 8.
    """
    layout = tensor_type.layout
    if layout.rank > MAX_RANK:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the tensor has {layout.rank} dimensions, but LiteRT's C interface supports at most "
            f"{MAX_RANK}",
        )
    target.element_type = int(tensor_type.element_type)
    target.layout.rank = layout.rank
    target.layout.has_strides = layout.strides is not None
    target.layout.dimensions[0 : layout.rank] = layout.dimensions
    if layout.strides is not None:
        target.layout.strides[0 : layout.rank] = layout.strides


def new_type(tensor_type: RankedTensorType) -> Any:
    """Makes a `LiteRtRankedTensorType*` that owns its memory; raises the same errors as `to_c`."""
    # Copied here, because other pointers have memory of their own
    from litert.abi.definitions import ffi

    target = ffi.new("LiteRtRankedTensorType*")
    to_c(tensor_type, target)
    return target


def from_c(source: Any) -> RankedTensorType:
    """Reads a tensor type from a `LiteRtRankedTensorType*`, or from the struct itself.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the pointer is NULL, the rank is above 8, or the element type is unknown.
    """
    if not source:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, "the caller passed NULL instead of a pointer to a tensor type"
        )
    layout = source.layout
    rank, number = int(layout.rank), int(source.element_type)
    if rank > MAX_RANK:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the tensor type has {rank} dimensions, but may have at most {MAX_RANK}",
        )
    try:
        element_type = ElementType(number)
    except ValueError:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"the tensor type has the unknown element type {number}"
        ) from None
    dimensions = tuple(layout.dimensions[0:rank])
    strides = tuple(layout.strides[0:rank]) if layout.has_strides else None
    return RankedTensorType(element_type, Layout(dimensions, strides))


def quantization_from_c(
    kind: QuantizationKind, source: Any, tensor_of: Callable[[Any], ConstantTensor | None]
) -> Quantization | None:
    """Reads a tensor's quantization from a C struct.

    Args:
      kind: Kind of the quantization.
      source: C struct with the quantization, such as a `LiteRtQuantizationPerTensor`, which must match `kind`.
      tensor_of: Function that returns the host's tensor for a `LiteRtTensor`.
    """
    if kind is QuantizationKind.PER_TENSOR:
        return Quantization((source.scale,), (source.zero_point,))
    if kind is QuantizationKind.PER_CHANNEL:
        count = source.num_channels
        zero_points = source.zero_points[0:count] if source.zero_points else (0,) * count
        return Quantization(
            tuple(source.scales[0:count]), tuple(zero_points), source.quantized_dimension
        )
    if kind is QuantizationKind.BLOCK_WISE:
        zeros = tensor_of(source.zero_points) if source.zero_points else None
        blockwise = BlockwiseQuantization(tensor_of(source.scales), zeros, source.block_size)
        return Quantization(blockwise=blockwise)
    return None
