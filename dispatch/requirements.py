"""Checks that a vendor's buffer requirements are valid, and that a buffer meets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dispatch.api import Dispatch
from dispatch.device_buffer import DeviceBuffer
from dispatch.parts import BufferHandlers
from dispatch.tensor_buffer import BufferType, TensorBuffer, TensorBufferRequirements
from dispatch.vendor import Vendor
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType


def ask_requirements(
    vendor: Vendor, context: Any, kind: str, index: int, tensor_type: RankedTensorType, of_call: str
) -> TensorBufferRequirements:
    """Asks the vendor for the buffer requirements of one input or output; a dimension of -1 may have any size.

    Raises:
      LiteRtError: The error that the vendor raised, or RUNTIME_FAILURE if the vendor returned invalid
        requirements.
    """
    function, detail = f"get_{kind}_requirements", f" of {kind} {index}{of_call}"
    found = vendor.call(function, context, index, tensor_type, detail=detail)
    if problem := _find_nonsense(found, tensor_type):
        raise vendor.nonsense(
            function + detail,
            problem,
            "Return the number of bytes that the tensor takes on the device.",
        )
    requirements: TensorBufferRequirements = found
    return requirements


def _find_nonsense(value: object, tensor_type: RankedTensorType) -> str | None:
    if not isinstance(value, TensorBufferRequirements):
        return f"it returned {value!r:.80}, not TensorBufferRequirements"
    if not _is_whole(value.size) or value.size < 0:
        return f"the size is {value.size!r}, not a number of bytes"
    if not _are_whole(value.supported_types) or not value.supported_types:
        return f"the supported types are {value.supported_types!r}, not one or more buffer types"
    if not _are_whole(value.strides):
        return f"the strides are {value.strides!r}, not numbers of elements"
    if value.strides and len(value.strides) != tensor_type.layout.rank:
        return f"there are {len(value.strides)} strides for {tensor_type}"
    alignment = value.alignment
    if not _is_whole(alignment) or alignment < 1 or alignment & (alignment - 1):
        return f"the alignment is {alignment!r}, not a power of two"
    shape = value.shape
    if shape is not None:
        if (
            not _are_whole(shape)
            or min(shape, default=0) < 0
            or not is_of_pattern(shape, tensor_type.shape)
        ):
            return f"the shape is {shape!r}, for {tensor_type}"
        takes = RankedTensorType.of(tensor_type.element_type, tuple(shape)).size_bytes
        if takes > value.size:
            return f"the size is {value.size} bytes, and the shape {list(shape)} takes {takes}"
    return None


def refuse_misfit(
    buffer: TensorBuffer,
    requirements: TensorBufferRequirements,
    tensor_type: RankedTensorType,
    where: str,
    dispatch: Dispatch[Any, Any] | None = None,
) -> None:
    """Raises INVALID_ARGUMENT if a buffer cannot be bound to an input or output of that type."""
    given = buffer.tensor_type
    misfit = find_memory_misfit(buffer, requirements, dispatch)
    if given.element_type is not tensor_type.element_type or not is_of_pattern(
        given.shape, tensor_type.shape
    ):
        misfit = f"it holds {given}, and {tensor_type} is asked for"
    elif not misfit and requirements.strides and not _has_strides(given, requirements.strides):
        strides = list(requirements.strides)
        misfit = f"it is in row order, and strides of {strides} elements are asked for"
    if misfit:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the buffer does not fit: {misfit}",
            where,
            "Allocate buffers by the requirements.",
        )


def find_memory_misfit(
    buffer: TensorBuffer,
    requirements: TensorBufferRequirements,
    dispatch: Dispatch[Any, Any] | None,
) -> str | None:
    """Returns why a buffer's memory does not meet the requirements; None, if it does.

    Args:
      buffer: Buffer to check, in the memory of any vendor or of the host.
      requirements: Requirements that the buffer must meet.
      dispatch: Table of the vendor that has the requirements; None if only host memory is allowed.
    """
    if buffer.size < requirements.size:
        return f"it has {buffer.size} bytes, and {requirements.size} are asked for"
    if buffer.buffer_type not in requirements.supported_types:
        wanted = ", ".join(map(_type_name, requirements.supported_types))
        return f"it is {_type_name(buffer.buffer_type)}, and the vendor takes {wanted}"
    if isinstance(buffer, DeviceBuffer):  # which the vendor aligns
        is_own = buffer.is_of(dispatch.buffer_handlers if dispatch else None)
        return None if is_own else "it is in another vendor's memory"
    shared = dispatch.shared_memory if dispatch else None
    if shared is not None and shared.find(buffer) is None:
        return "it is not in memory that the device's process has"
    if buffer.size and buffer.address % requirements.alignment:
        return f"it is at address {buffer.address:#x}, no multiple of {requirements.alignment}"
    return None


def choose_own_type(
    requirements: TensorBufferRequirements, handlers: BufferHandlers[Any] | None
) -> int | None:
    """Returns the memory type that the vendor's handlers must create; None if host memory is used."""
    if handlers is None or BufferType.HOST_MEMORY in requirements.supported_types:
        return None
    made = handlers.supported_types
    return next((kind for kind in requirements.supported_types if kind in made), None)


def is_of_pattern(shape: Sequence[int], pattern: Sequence[int]) -> bool:
    """Returns whether a shape matches a pattern, in which -1 matches any dimension."""
    return len(shape) == len(pattern) and all(
        p in (-1, d) for d, p in zip(shape, pattern, strict=True)
    )


def _has_strides(tensor_type: RankedTensorType, strides: Sequence[int]) -> bool:
    """Whether a buffer in row order has these strides, in elements; those of dimensions of 1 do not matter."""
    expected = 1
    for dimension, stride in zip(reversed(tensor_type.shape), reversed(strides), strict=True):
        if dimension != 1 and stride != expected:
            return False
        expected *= dimension
    return True


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_whole(values: object) -> bool:
    return isinstance(values, (list, tuple)) and all(map(_is_whole, values))


def _type_name(buffer_type: int) -> str:
    try:
        return BufferType(buffer_type).name
    except ValueError:
        return f"buffer type {buffer_type}"
