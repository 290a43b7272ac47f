"""The host that dispatch libraries are checked in: a runtime context whose buffers know when they are overrun.

It is stricter than a host has to be. Buffers end right before memory that nobody may touch; what the
vendor is given back is never given out again.
"""

from __future__ import annotations

import logging
import select
from dataclasses import dataclass, field
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.guarded_memory import GuardedMemory
from litert.abi.handles import Handles
from litert.abi.tables import fill
from litert.abi.tensor_types import to_c
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

HOST_MEMORY = 1
CUSTOM_TYPES = range(100, 200)
_VERSION = (1, 2)
_READ, _WRITE = 0, 1
_SYNC_FENCE, _CUSTOM = 1, 5
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Requirements:
    """What a vendor asked for a tensor: types of memory, the best first, and bytes."""

    types: tuple[int, ...]
    size: int
    strides: tuple[int, ...]


@dataclass(slots=True, eq=False)
class CheckedBuffer:
    """A tensor buffer; memory of the host's, or of the vendor's by its handlers.

    Attributes:
      handle: what the vendor has of it.
      custom: a `HwMemoryInfoPtr` of the vendor's; None for host memory.
    """

    tensor_type: RankedTensorType
    buffer_type: int
    size: int
    memory: GuardedMemory | None = None
    custom: Any = None
    handlers: Any = None
    handle: int = 0
    event: int = 0

    def lock(self, mode: int) -> Any:
        """The address, as long as it is locked; a `void*`."""
        if self.memory is not None:
            return ffi.cast("void*", self.memory.address)
        address = ffi.new("void**")
        status = self.handlers.lock_func(self.custom, mode, address)
        if status or not address[0]:
            raise LiteRtError(status or 3, "lock_func of the vendor's buffers failed")
        return address[0]

    def unlock(self) -> None:
        """Ends what `lock` began."""
        if self.memory is None:
            status = self.handlers.unlock_func(self.custom)
            if status:
                raise LiteRtError(status, "unlock_func of the vendor's buffers failed")

    def read(self) -> bytes:
        """All bytes."""
        data = bytes(ffi.buffer(self.lock(_READ), self.size))
        self.unlock()
        return data

    def write(self, data: bytes) -> None:
        """Replaces the first bytes, and makes the rest 0."""
        target = ffi.buffer(self.lock(_WRITE), self.size)
        target[:] = data[: self.size].ljust(self.size, b"\0")
        self.unlock()


@dataclass(slots=True, eq=False)
class CheckedEvent:
    """An event that a vendor made: its own kind, or a file descriptor."""

    type: int
    custom: Any = None
    fd: int = -1

    def wait(self, timeout_ms: int) -> None:
        """Waits until it is signalled; at most so long if that is not negative."""
        if self.custom is not None:
            self.custom.Wait(self.custom, timeout_ms)
        elif self.fd >= 0:
            select.select([self.fd], [], [], None if timeout_ms < 0 else timeout_ms / 1000)

    def release(self) -> None:
        """Gives the vendor's event back."""
        if self.custom is not None:
            self.custom.Release(self.custom)
            self.custom = None


@dataclass(slots=True, eq=False)
class CheckedHost:
    """A runtime context, and what was made through it."""

    table: Any = None
    objects: Handles = field(default_factory=Handles)
    _kept: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = ffi.new("LiteRtRuntimeContext*")
        slots = {
            name.removeprefix("_slot_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_slot_")
        }
        self._kept = fill(self.table, slots, _VERSION, "the vendor", _LOG)

    def make_buffer(
        self, tensor_type: RankedTensorType, wanted: Requirements, handlers: Any, size: int
    ) -> CheckedBuffer:
        """Allocates a buffer of the first type that this host has, or the vendor's handlers.

        Args:
          tensor_type: that it is for.
          wanted: of the vendor.
          handlers: `LiteRtCustomTensorBufferHandlersDef*` of the vendor, or NULL.
          size: in bytes.

        Raises:
          LiteRtError: UNSUPPORTED, where there is no such type; what `create_func` answers.
        """
        for buffer_type in wanted.types:
            buffer = CheckedBuffer(tensor_type, buffer_type, size)
            if buffer_type == HOST_MEMORY:
                buffer.memory = GuardedMemory(size)
            elif buffer_type in CUSTOM_TYPES and handlers:
                buffer.handlers, info = handlers, ffi.new("HwMemoryInfoPtr*")
                c_type = ffi.new("LiteRtRankedTensorType*")
                to_c(tensor_type, c_type)
                packed = tensor_type.size_bytes
                status = handlers.create_func(
                    ffi.NULL, ffi.NULL, c_type, buffer_type, size, packed, info
                )
                if status:
                    raise LiteRtError(status, "create_func of the vendor's buffers failed")
                buffer.custom = info[0]
            else:
                continue
            buffer.handle = self.objects.put(buffer)
            return buffer
        raise LiteRtError(
            Status.UNSUPPORTED, f"no memory of the types {list(wanted.types)} is here"
        )

    def drop_buffer(self, buffer: CheckedBuffer) -> None:
        """Releases a buffer; its address leads to no other while this host lives."""
        self.objects.drop(buffer.handle)
        if buffer.custom is not None:
            buffer.handlers.destroy_func(buffer.custom)
        elif buffer.memory is not None:
            buffer.memory.make_forbidden()
            self._kept.append(buffer.memory)

    def requirements(self, handle: Any) -> Requirements:
        """What stands behind a handle that the vendor answered with; it is released."""
        found = self.objects.get(handle, Requirements)
        self.objects.drop(handle)
        return found

    def event(self, handle: Any) -> CheckedEvent:
        """What stands behind a handle of an event."""
        return self.objects.get(handle, CheckedEvent)

    def _buffer(self, handle: int) -> CheckedBuffer:
        return self.objects.get(handle, CheckedBuffer)

    # The table's slots: arguments as `litert.abi.tables.fill` has them.

    def _slot_create_tensor_buffer_requirements(
        self, num_types: int, types: Any, size: int, num_strides: int, strides: Any, made: Any
    ) -> None:
        if num_types < 0 or num_strides < 0:
            raise LiteRtError(Status.INVALID_ARGUMENT, "a negative number of types or strides")
        listed = tuple(int(types[i]) for i in range(num_types))
        steps = tuple(int(strides[i]) for i in range(num_strides))
        made[0] = self.objects.put(Requirements(listed, size, steps))

    def _slot_get_opaque_options(self, options: int, found: Any) -> None:
        raise LiteRtError(Status.NOT_FOUND, "no options were given")

    def _slot_find_opaque_options_data(self, options: int, identifier: Any, data: Any) -> None:
        raise LiteRtError(Status.NOT_FOUND, "no options were given")

    def _slot_destroy_options(self, options: int) -> None:
        return None

    def _slot_get_environment_options(self, environment: int, options: Any) -> None:
        raise LiteRtError(Status.NOT_FOUND, "no environment was given")

    def _slot_get_environment_options_value(self, options: int, tag: int, value: Any) -> int:
        return Status.NOT_FOUND

    def _slot_environment_has_gpu_environment(self, environment: int, answer: Any) -> None:
        answer[0] = False

    def _slot_get_tensor_buffer_type(self, buffer: int, buffer_type: Any) -> None:
        buffer_type[0] = self._buffer(buffer).buffer_type

    def _slot_get_tensor_buffer_tensor_type(self, buffer: int, tensor_type: Any) -> None:
        to_c(self._buffer(buffer).tensor_type, tensor_type)

    def _slot_get_tensor_buffer_size(self, buffer: int, size: Any) -> None:
        size[0] = self._buffer(buffer).size

    def _slot_get_tensor_buffer_packed_size(self, buffer: int, size: Any) -> None:
        size[0] = self._buffer(buffer).tensor_type.size_bytes

    def _slot_get_tensor_buffer_offset(self, buffer: int, offset: Any) -> None:
        self._buffer(buffer)
        offset[0] = 0

    def _slot_lock_tensor_buffer(self, buffer: int, address: Any, mode: int) -> None:
        address[0] = self._buffer(buffer).lock(mode)

    def _slot_unlock_tensor_buffer(self, buffer: int) -> None:
        self._buffer(buffer).unlock()

    def _slot_get_tensor_buffer_host_memory(self, buffer: int, address: Any) -> None:
        found = self._buffer(buffer)
        if found.memory is None:
            raise LiteRtError(Status.INVALID_ARGUMENT, "the buffer is not in host memory")
        address[0] = found.lock(_READ)

    def _slot_get_tensor_buffer_custom_tensor_buffer_handle(self, buffer: int, handle: Any) -> None:
        found = self._buffer(buffer)
        if found.custom is None:
            raise LiteRtError(Status.INVALID_ARGUMENT, "the buffer is in host memory")
        handle[0] = found.custom.memory_handle

    def _slot_has_tensor_buffer_event(self, buffer: int, answer: Any) -> None:
        answer[0] = self._buffer(buffer).event != 0

    def _slot_get_tensor_buffer_event(self, buffer: int, event: Any) -> None:
        event[0] = self._buffer(buffer).event

    def _slot_set_tensor_buffer_event(self, buffer: int, event: int) -> None:
        self._buffer(buffer).event = event

    def _slot_create_managed_event(self, environment: int, event_type: int, event: Any) -> None:
        event[0] = self.objects.put(CheckedEvent(event_type))

    def _slot_create_event_from_sync_fence_fd(
        self, environment: int, fd: int, owns_fd: bool, event: Any
    ) -> None:
        event[0] = self.objects.put(CheckedEvent(_SYNC_FENCE, fd=fd))

    def _slot_get_event_event_type(self, event: int, event_type: Any) -> None:
        event_type[0] = self.event(event).type

    def _slot_get_event_sync_fence_fd(self, event: int, fd: Any) -> None:
        fd[0] = self.event(event).fd

    def _slot_set_custom_event(self, event: int, custom: Any) -> None:
        self.event(event).type = _CUSTOM
        self.event(event).custom = custom

    def _slot_get_custom_event(self, event: int, custom: Any) -> None:
        custom[0] = self.event(event).custom or ffi.NULL

    def _slot_wait_event(self, event: int, timeout_ms: int) -> None:
        self.event(event).wait(timeout_ms)
