"""What a dispatch table does with host memory where the vendor overrides nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.mem_buffer import MemBuffer
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType


@dataclass(slots=True)
class HostInvocationContext:
    """What the default `invocation_context_create` makes, and the default attach and detach fill.

    A vendor that needs more derives from it.

    Attributes:
      device_context, byte_code, function_name: as given.
      inputs, outputs: attached buffers as NumPy arrays; None while nothing is attached.
      attached: the buffers themselves, by kind and index.
    """

    device_context: Any
    byte_code: MemBuffer
    function_name: str
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    attached: dict[tuple[str, int], TensorBuffer] = field(default_factory=dict)


def find_requirements(
    dispatch: object, function: str, tensor_type: RankedTensorType
) -> TensorBufferRequirements:
    """Host memory in row order, of the size of the tensor.

    Raises:
      LiteRtError: UNSUPPORTED, for a tensor with unknown dimensions.
    """
    if not tensor_type.layout.is_static:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the size of {tensor_type} is not known",
            hint=f"Override {function} in {type(dispatch).__name__}, and give the largest size.",
        )
    return TensorBufferRequirements(tensor_type.size_bytes)


def attach(dispatch: object, context: object, kind: str, index: int, handle: object) -> None:
    """Puts a buffer into a `HostInvocationContext`.

    Raises:
      LiteRtError: DYNAMIC_LOADING, for a context or handle of the vendor's own.
    """
    host = _host_context(dispatch, context, f"attach_{kind}")
    if not isinstance(handle, TensorBuffer):
        name = type(dispatch).__name__
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the default attach_{kind} takes no handle of the type {type(handle).__name__}",
            hint=f"Override it in {name}, or return the buffer from register_tensor_buffer.",
        )
    _arrays(host, kind)[index] = handle.array()
    host.attached[kind, index] = handle


def detach(dispatch: object, context: object, kind: str, index: int, handle: object) -> None:
    """Takes a buffer out of a `HostInvocationContext`, if it is there.

    Raises:
      LiteRtError: DYNAMIC_LOADING, for a context of the vendor's own.
    """
    host = _host_context(dispatch, context, f"detach_{kind}")
    if host.attached.get((kind, index)) is handle:
        del host.attached[kind, index]
        _arrays(host, kind)[index] = None


def _host_context(dispatch: object, context: object, function: str) -> HostInvocationContext:
    if isinstance(context, HostInvocationContext):
        return context
    name = type(dispatch).__name__
    raise LiteRtError(
        Status.DYNAMIC_LOADING,
        f"the default {function} takes no context of the type {type(context).__name__}",
        hint=f"Override it in {name}, or derive the context from HostInvocationContext.",
    )


def _arrays(context: HostInvocationContext, kind: str) -> list[Any]:
    return context.inputs if kind == "input" else context.outputs
