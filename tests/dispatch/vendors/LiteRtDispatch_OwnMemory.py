"""A vendor whose NPU has its own memory and reverses the bytes of its input."""

from __future__ import annotations

import ctypes
from typing import Any

from dispatch.api import (
    BufferHandlers,
    Dispatch,
    HostInvocationContext,
    LockMode,
    TensorBufferRequirements,
)
from litert.core.tensor_type import RankedTensorType

BUFFER_TYPE = 120


class Memory:
    """Device memory, of which the host sees a copy."""

    def __init__(self, size: int) -> None:
        self.device = bytearray(size)
        self.host: Any = None
        self.copy = (ctypes.c_char * size)()  # one copy, so that its address is fixed


class Handlers(BufferHandlers[Memory]):
    supported_types: Any = (BUFFER_TYPE,)

    def __init__(self) -> None:
        self.alive = 0

    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Memory:
        assert buffer_type == BUFFER_TYPE and size >= tensor_type.size_bytes
        self.alive += 1
        return Memory(size)

    def destroy(self, memory: Memory) -> None:
        assert memory.host is None
        self.alive -= 1

    def lock(self, memory: Memory, mode: LockMode) -> int:
        assert memory.host is None and mode in LockMode
        memory.copy.raw = bytes(memory.device)
        memory.host = memory.copy
        return ctypes.addressof(memory.host)

    def unlock(self, memory: Memory) -> None:
        memory.device[:] = bytes(memory.host)
        memory.host = None


class OwnMemoryDispatch(Dispatch[Any, HostInvocationContext]):
    """The dispatch table of an NPU that reverses bytes."""

    vendor_id = "OwnMemory"

    def __init__(self) -> None:
        self.buffer_handlers = Handlers()

    def device_context_create(self, options: Any) -> Any:
        return object()

    def get_input_requirements(
        self, invocation_context: Any, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        return TensorBufferRequirements(tensor_type.size_bytes, (4, BUFFER_TYPE))

    def get_output_requirements(
        self, invocation_context: Any, output_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        return self.get_input_requirements(invocation_context, output_index, tensor_type)

    def attach_input(
        self, invocation_context: HostInvocationContext, index: int, handle: Any
    ) -> None:
        invocation_context.inputs[index] = handle.memory

    def attach_output(
        self, invocation_context: HostInvocationContext, index: int, handle: Any
    ) -> None:
        invocation_context.outputs[index] = handle.memory

    def detach_input(self, invocation_context: Any, index: int, handle: Any) -> None:
        pass

    def detach_output(self, invocation_context: Any, index: int, handle: Any) -> None:
        pass

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        (source,), (result,) = invocation_context.inputs, invocation_context.outputs
        assert source.host is None and result.host is None
        result.device[:] = source.device[::-1]


DISPATCH = OwnMemoryDispatch()
