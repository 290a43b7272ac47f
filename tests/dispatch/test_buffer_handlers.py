"""A table in Python may have memory of its own kind, too."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest

from dispatch.api import (
    BufferHandlers,
    Dispatch,
    HostInvocationContext,
    LockMode,
    TensorBuffer,
    TensorBufferRequirements,
)
from dispatch.device_buffer import DeviceBuffer
from dispatch.table_check import check_table
from litert.core.errors import LiteRtError
from litert.core.tensor_type import RankedTensorType
from tests.dispatch.strict_vendor import FLOATS, open_call, open_session

BUFFER_TYPE = 120


class Memory:
    """On the device; the host sees a copy."""

    def __init__(self, size: int) -> None:
        self.device = bytearray(size)
        self.host: Any = None


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
        assert memory.host is None and mode is LockMode.READ_WRITE
        memory.host = (ctypes.c_char * len(memory.device)).from_buffer_copy(memory.device)
        return ctypes.addressof(memory.host)

    def unlock(self, memory: Memory) -> None:
        memory.device[:] = bytes(memory.host)
        memory.host = None


class OwnMemoryDispatch(Dispatch[Any, HostInvocationContext]):
    """Its NPU turns the bytes around."""

    vendor_id = "Own"

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


def test_a_run_works_in_the_memory_that_the_table_makes() -> None:
    table = OwnMemoryDispatch()
    with open_session(table) as session:
        call = open_call(session)
        buffers = [
            call.allocate(wanted, FLOATS, wanted.size)
            for wanted in (*call.input_requirements, *call.output_requirements)
        ]
        x, y = (buffer for buffer in buffers if buffer is not None)
        assert isinstance(x, DeviceBuffer) and x.buffer_type == BUFFER_TYPE
        call.bind_input(0, x)
        call.bind_output(0, y)
        for start in (0, 100):
            data = bytes(range(start, start + 16))
            ctypes.memmove(x.address, data, 16)
            call.invoke()
            assert ctypes.string_at(y.address, 16) == data[::-1]
        with pytest.raises(LiteRtError, match="it is HOST_MEMORY, and the vendor takes DMA_BUF"):
            call.bind_input(0, TensorBuffer.allocate(FLOATS))
    del x, y, buffers
    gc.collect()
    handlers: Any = table.buffer_handlers
    assert handlers.alive == 0


@pytest.mark.parametrize("types", [(), (1,), (0,), "150", ("a",), None, (150, 1)], ids=str)
def test_handlers_for_no_memory_or_the_host_s_are_refused(types: Any) -> None:
    table = OwnMemoryDispatch()
    assert isinstance(table.buffer_handlers, Handlers)
    table.buffer_handlers.supported_types = types
    with pytest.raises(LiteRtError, match="the supported types of buffer_handlers are"):
        check_table(table, "here")


def test_handlers_of_another_class_are_refused() -> None:
    table: Any = OwnMemoryDispatch()
    table.buffer_handlers = object()
    with pytest.raises(LiteRtError, match="not an object of a class derived from BufferHandlers"):
        check_table(table, "here")


@pytest.mark.parametrize("answer", [None, 0, "0x10"])
def test_a_lock_without_an_address_is_nonsense(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handlers, "lock", lambda *_: answer)
    with open_session(OwnMemoryDispatch()) as session:
        call = open_call(session)
        with pytest.raises(LiteRtError, match="the address is") as error:
            call.allocate(call.input_requirements[0], FLOATS, 16)
    assert error.value.where == f"vendor 'Own', lock of buffer type {BUFFER_TYPE}"
