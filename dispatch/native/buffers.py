"""Host functions that a dispatch library calls to inspect tensor buffers and to create its own buffers."""

from __future__ import annotations

from typing import Any

from dispatch.device_buffer import DeviceBuffer
from dispatch.event import Event
from dispatch.tensor_buffer import BufferType, TensorBuffer
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.abi.tensor_types import from_c, to_c
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType


class Buffers:
    """Tensor buffers of the host and of a dispatch library, for which the library has handles."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._events: dict[int, list[int]] = {}  # by buffer: handles of its events

    def put(self, buffer: TensorBuffer) -> int:
        """Makes a `LiteRtTensorBuffer` handle; the caller must drop the handle."""
        return self._handles.put(buffer)

    def drop(self, handle: int) -> None:
        """Removes the handles of a buffer and of its events."""
        for event in self._events.pop(handle, ()):
            self._handles.drop(event)
        self._handles.drop(handle)

    def create_tensor_buffer_from_host_memory(
        self, tensor_type: Any, address: Any, size: int, deallocator: Any, buffer: Any
    ) -> None:
        found = _fitting(tensor_type, size)
        if not address:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the vendor's library passes NULL as the host memory of a new buffer",
                hint=VENDOR_REPAIRS,
            )
        owner = ffi.gc(address, deallocator) if deallocator else None
        at = int(ffi.cast("uintptr_t", address))
        buffer[0] = self.put(TensorBuffer(found, at, size, owner))

    def create_managed_tensor_buffer(
        self, environment: int, buffer_type: int, tensor_type: Any, size: int, buffer: Any
    ) -> Status | None:
        if buffer_type != BufferType.HOST_MEMORY:
            return Status.UNSUPPORTED
        buffer[0] = self.put(TensorBuffer.allocate(_fitting(tensor_type, size), size))
        return None

    def destroy_tensor_buffer(self, buffer: int) -> None:
        self.drop(buffer)

    def get_tensor_buffer_type(self, buffer: int, buffer_type: Any) -> None:
        buffer_type[0] = int(self._get(buffer).buffer_type)

    def get_tensor_buffer_tensor_type(self, buffer: int, tensor_type: Any) -> None:
        to_c(self._get(buffer).tensor_type, tensor_type)

    def get_tensor_buffer_size(self, buffer: int, size: Any) -> None:
        size[0] = self._get(buffer).size

    def get_tensor_buffer_packed_size(self, buffer: int, size: Any) -> None:
        size[0] = self._get(buffer).tensor_type.size_bytes

    def get_tensor_buffer_offset(self, buffer: int, offset: Any) -> None:
        self._get(buffer)
        offset[0] = 0

    def lock_tensor_buffer(self, buffer: int, address: Any, mode: int) -> None:
        address[0] = ffi.cast("void*", self._get(buffer).address)

    def unlock_tensor_buffer(self, buffer: int) -> None:
        found = self._get(buffer)
        if isinstance(found, DeviceBuffer):
            found.give()

    def get_tensor_buffer_host_memory(self, buffer: int, address: Any) -> Status | None:
        found = self._get(buffer)
        if found.buffer_type != BufferType.HOST_MEMORY:
            return Status.RUNTIME_FAILURE  # as stock: a library may ask for type after type
        address[0] = ffi.cast("void*", found.address)
        return None

    def get_tensor_buffer_custom_tensor_buffer_handle(
        self, buffer: int, handle: Any
    ) -> Status | None:
        found = self._get(buffer)
        if not isinstance(found, DeviceBuffer):
            return Status.RUNTIME_FAILURE
        handle[0] = found.memory.memory_handle
        return None

    def has_tensor_buffer_event(self, buffer: int, has: Any) -> None:
        has[0] = self._get(buffer).event is not None

    def get_tensor_buffer_event(self, buffer: int, event: Any) -> Status | None:
        found = self._get(buffer).event
        if found is None:
            return Status.RUNTIME_FAILURE
        event[0] = handle = self._handles.put(found)
        self._events.setdefault(buffer, []).append(handle)
        return None

    def set_tensor_buffer_event(self, buffer: int, event: int) -> None:
        self._get(buffer).event = self._handles.get(event, Event)
        self._events.setdefault(buffer, []).append(event)  # the buffer owns the event from now on

    def _get(self, buffer: int) -> TensorBuffer:
        return self._handles.get(buffer, TensorBuffer)


def _fitting(tensor_type: Any, size: int) -> RankedTensorType:
    """Returns a tensor type after a check that it fits a buffer of the given size."""
    found = from_c(tensor_type)
    problem = ""
    if not found.layout.is_static:
        problem = "a dimension is unknown"
    elif found.size_bytes > size:
        problem = f"the tensor needs {found.size_bytes} bytes"
    if problem:
        what = f"the vendor's library creates a buffer of {size} bytes for {found}, but {problem}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, hint=VENDOR_REPAIRS)
    return found
