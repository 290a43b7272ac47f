"""Checks that a vendor's buffer requirements are valid, and that a buffer meets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dispatch.api import Dispatch
from dispatch.device_buffer import DeviceBuffer
from dispatch.parts import BufferHandlers
from dispatch.tensor_buffer import BufferType, TensorBuffer, TensorBufferRequirements
from dispatch.vendor import Vendor
from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

_SIZE = "; size is the number of bytes of the tensor on the device"
_STRIDES = "; strides has one whole number for each dimension, or is empty"


def ask_requirements(
    vendor: Vendor, context: Any, kind: str, index: int, tensor_type: RankedTensorType, of_call: str
) -> TensorBufferRequirements:
    """Gets the vendor's buffer requirements for one input or output; a dimension of -1 means any size.

    Raises:
      LiteRtError: Any error of the vendor; RUNTIME_FAILURE, if the vendor returned invalid requirements.
    """
    function, detail = f"get_{kind}_requirements", f" of {kind} {index}{of_call}"
    found = vendor.call(function, context, index, tensor_type, detail=detail)
    if nonsense := _find_nonsense(found, tensor_type):
        problem, advice = nonsense
        raise vendor.nonsense(
            function + detail,
            problem,
            f"The function must return valid TensorBufferRequirements{advice}.",
        )
    requirements: TensorBufferRequirements = found
    return requirements


def _find_nonsense(value: object, tensor_type: RankedTensorType) -> tuple[str, str] | None:
    """Returns what is wrong with a vendor's requirements, and advice about the field; None if nothing is wrong."""
    if not isinstance(value, TensorBufferRequirements):
        return f"the vendor returned {value!r:.80}, not TensorBufferRequirements", ""
    if not _is_whole(value.size) or value.size < 0:
        return f"the required size is {value.size!r}, not a number of bytes", _SIZE
    if not _are_whole(value.supported_types) or not value.supported_types:
        types = value.supported_types
        return f"supported_types is {types!r}, not a list of at least one buffer type", ""
    if not _are_whole(value.strides):
        return f"the required strides are {value.strides!r}, not a list of whole numbers", _STRIDES
    if value.strides and len(value.strides) != tensor_type.layout.rank:
        number = len(value.strides)
        what = f"the vendor requires {count_text(number, 'stride')}, but {tensor_type} has "
        what += count_text(tensor_type.layout.rank, "dimension")
        return what, _STRIDES
    alignment = value.alignment
    if not _is_whole(alignment) or alignment < 1 or alignment & (alignment - 1):
        return f"the required alignment is {alignment!r}, not a power of two", ""
    shape = value.shape
    if shape is not None:
        if (
            not _are_whole(shape)
            or min(shape, default=0) < 0
            or not is_of_pattern(shape, tensor_type.shape)
        ):
            return f"the returned shape {shape!r} does not fit {tensor_type}", ""
        takes = RankedTensorType.of(tensor_type.element_type, tuple(shape)).size_bytes
        if takes > value.size:
            needs = f"the returned shape {list(shape)} needs {takes} bytes"
            return f"the returned size is {value.size} bytes, but {needs}", _SIZE
    return None


def refuse_misfit(
    buffer: TensorBuffer,
    requirements: TensorBufferRequirements,
    tensor_type: RankedTensorType,
    where: str,
    dispatch: Dispatch[Any, Any] | None = None,
) -> None:
    """Raises INVALID_ARGUMENT if a buffer cannot be bound to an input or output with a given tensor type."""
    given = buffer.tensor_type
    misfit = find_memory_misfit(buffer, requirements, dispatch)
    if given.element_type is not tensor_type.element_type or not is_of_pattern(
        given.shape, tensor_type.shape
    ):
        misfit = f"its tensor type is {given}, but {tensor_type} is required"
    elif not misfit and requirements.strides and not _has_strides(given, requirements.strides):
        strides = list(requirements.strides)
        misfit = f"it is in row-major order, but strides of {strides} elements are required"
    if misfit:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the buffer does not meet the vendor's requirements: {misfit}",
            where,
            "Allocate a buffer that meets the vendor's requirements for this input or output.",
        )


def find_memory_misfit(
    buffer: TensorBuffer,
    requirements: TensorBufferRequirements,
    dispatch: Dispatch[Any, Any] | None,
) -> str | None:
    """Returns why a buffer's memory does not meet requirements; None if the memory meets the requirements.

    Args:
      buffer: Buffer to check, in host memory or in any vendor's memory.
      requirements: Requirements that the buffer must meet.
      dispatch: Dispatch table of the vendor that returned the requirements; None if only host memory is allowed.
    """
    if buffer.size < requirements.size:
        return f"its size is {buffer.size} bytes, but {requirements.size} bytes are required"
    if buffer.buffer_type not in requirements.supported_types:
        wanted = ", ".join(map(_type_name, requirements.supported_types))
        return (
            f"its buffer type is {_type_name(buffer.buffer_type)}, but the vendor supports only "
            f"{wanted}"
        )
    if isinstance(buffer, DeviceBuffer):  # which the vendor aligns
        is_own = buffer.is_of(dispatch.buffer_handlers if dispatch else None)
        return None if is_own else "it is in another vendor's memory"
    shared = dispatch.shared_memory if dispatch else None
    if shared is not None and shared.find(buffer) is None:
        return "it is not in memory that is shared with the device's process"
    if buffer.size and buffer.address % requirements.alignment:
        return (
            f"its address {buffer.address:#x} is not a multiple of {requirements.alignment} bytes"
        )
    return None


def choose_own_type(
    requirements: TensorBufferRequirements, handlers: BufferHandlers[Any] | None
) -> int | None:
    """Returns the memory type that the vendor's buffer handlers must allocate; None if host memory is used."""
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
    """Returns whether row-major order has these strides in elements; dimensions of size 1 are ignored."""
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
