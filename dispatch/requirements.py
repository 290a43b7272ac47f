"""Whether a vendor's buffer requirements make sense, and whether a buffer meets them."""

from __future__ import annotations

from collections.abc import Sequence

from dispatch.tensor_buffer import BufferType, TensorBuffer, TensorBufferRequirements
from litert.core.tensor_type import RankedTensorType


def find_nonsense(value: object, tensor_type: RankedTensorType) -> str | None:
    """What is wrong with requirements that a vendor returned for a tensor; None, if nothing is."""
    if not isinstance(value, TensorBufferRequirements):
        return f"it returned {value!r:.80}, not TensorBufferRequirements"
    if not _is_whole(value.size) or value.size < 0:
        return f"the size is {value.size!r}, not a number of bytes"
    if not _are_whole(value.supported_types) or not value.supported_types:
        return f"the supported types are {value.supported_types!r}, not one or more buffer types"
    if not _are_whole(value.strides):
        return f"the strides are {value.strides!r}, not numbers of bytes"
    if value.strides and len(value.strides) != tensor_type.layout.rank:
        return f"there are {len(value.strides)} strides for {tensor_type}"
    alignment = value.alignment
    if not _is_whole(alignment) or alignment < 1 or alignment & (alignment - 1):
        return f"the alignment is {alignment!r}, not a power of two"
    return None


def find_misfit(
    buffer: TensorBuffer, requirements: TensorBufferRequirements, tensor_type: RankedTensorType
) -> str | None:
    """Why a buffer cannot be bound to an input or output of that type; None, if it can."""
    given = buffer.tensor_type
    if given.element_type is not tensor_type.element_type or not _is_shape_of(given, tensor_type):
        return f"it holds {given}, and {tensor_type} is asked for"
    if buffer.size < requirements.size:
        return f"it has {buffer.size} bytes, and {requirements.size} are asked for"
    if buffer.buffer_type not in requirements.supported_types:
        wanted = ", ".join(_type_name(t) for t in requirements.supported_types)
        return f"it is {_type_name(buffer.buffer_type)}, and the vendor takes {wanted}"
    if buffer.size and buffer.address % requirements.alignment:
        return f"it is at address {buffer.address:#x}, no multiple of {requirements.alignment}"
    if requirements.strides and not _has_strides(given, requirements.strides):
        return (
            f"it is in row order, and strides of {list(requirements.strides)} bytes are asked for"
        )
    return None


def _is_shape_of(given: RankedTensorType, wanted: RankedTensorType) -> bool:
    return given.layout.rank == wanted.layout.rank and all(
        w in (-1, g) for g, w in zip(given.shape, wanted.shape, strict=True)
    )


def _has_strides(tensor_type: RankedTensorType, strides: Sequence[int]) -> bool:
    """Whether a buffer in row order has these strides, in bytes; those of dimensions of 1 do not matter."""
    expected = tensor_type.element_type.bits // 8
    for dimension, stride in zip(reversed(tensor_type.shape), reversed(strides), strict=True):
        if dimension != 1 and stride != expected:
            return False
        expected *= dimension
    return True


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_whole(values: object) -> bool:
    return isinstance(values, (list, tuple)) and all(_is_whole(v) for v in values)


def _type_name(buffer_type: int) -> str:
    try:
        return BufferType(buffer_type).name
    except ValueError:
        return f"buffer type {buffer_type}"
