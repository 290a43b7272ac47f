"""The host that loads dispatch libraries for the checks: this project's host, with buffers that detect overruns.

The host of the checks is stricter than the contract requires. Host memory ends directly before a protected page,
and the memory
of released buffers is protected. Any access to protected memory crashes the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dispatch.api import Dispatch
from dispatch.device_buffer import DeviceBuffer
from dispatch.native.buffers import Buffers
from dispatch.native.library_parts import NativeBufferHandlers
from dispatch.native.runtime_context import RuntimeContext
from dispatch.tensor_buffer import BufferType, TensorBuffer, TensorBufferRequirements
from dispatch.vendor import Vendor
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.abi.options_table import options_table
from litert.abi.vendor_flags import dispatch_payloads
from litert.conformance.guarded_memory import GuardedMemory
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

_OWNER = "the checked vendor"


@dataclass(slots=True, eq=False)
class CheckedBuffer:
    """A tensor buffer that the checks pass to the vendor.

    Attributes:
      handle: The handle of the buffer that the vendor gets.
      memory: The host memory of the buffer; None if the vendor's buffer handlers allocated the memory.
      registered: The handle that the vendor returned when the buffer was registered; 0 before the registration.
    """

    buffer: TensorBuffer
    handle: int
    memory: GuardedMemory | None
    registered: int = 0

    @property
    def size(self) -> int:
        """Size of the buffer, in bytes."""
        return self.buffer.size

    def read(self) -> bytes:
        """Returns all bytes of the buffer."""
        data = bytes(self.buffer.view)
        self.release()
        return data

    def write(self, data: bytes) -> None:
        """Writes data to the start of the buffer, and fills the rest of the buffer with zeros."""
        self.buffer.view[:] = data[: self.size].ljust(self.size, b"\0")
        self.release()

    def release(self) -> None:
        """Unlocks memory that the vendor allocated, so that the device can use this memory."""
        if isinstance(self.buffer, DeviceBuffer):
            self.buffer.give()


@dataclass(slots=True, eq=False)
class DispatchHost:
    """A runtime context, and the objects that were made with this context."""

    runtime: RuntimeContext = field(default_factory=lambda: RuntimeContext(_OWNER, _CountedLocks))
    _released: list[GuardedMemory] = field(default_factory=list)

    @property
    def table(self) -> Any:
        """The `LiteRtRuntimeContext*`."""
        return self.runtime.table

    def options(self, vendor: str, values: Mapping[str, str]) -> Any:
        """Makes a `LiteRtOptions` object with a vendor's options; the object lives until the process ends."""
        handle = options_table().put_options(dispatch_payloads(vendor, values))
        return ffi.cast("LiteRtOptions", handle)

    def take_lock_fault(self) -> str:
        """Describes the vendor's first wrong use of a lock, or returns "" if there is none; forgets all locks."""
        assert isinstance(self.runtime.buffers, _CountedLocks)
        return self.runtime.buffers.take_fault()

    def make_buffer(
        self,
        tensor_type: RankedTensorType,
        wanted: TensorBufferRequirements,
        handlers: Any,
        size: int,
    ) -> CheckedBuffer:
        """Allocates a buffer of the first wanted buffer type that this host or the vendor's handlers support.

        Args:
          tensor_type: Type of the tensor.
          wanted: The vendor's buffer requirements.
          handlers: The vendor's buffer handlers; NULL if the vendor has none.
          size: Size of the buffer, in bytes.

        Raises:
          LiteRtError: UNSUPPORTED, if neither the host nor the handlers support a wanted type; or the error of the
            handlers.
        """
        made = NativeBufferHandlers(handlers, _OWNER) if handlers else None
        for buffer_type in wanted.supported_types:
            if buffer_type == BufferType.HOST_MEMORY:
                memory = GuardedMemory(size)
                buffer = TensorBuffer(tensor_type, memory.address, size, memory)
                return CheckedBuffer(buffer, self.runtime.buffers.put(buffer), memory)
            if made is not None and buffer_type in made.supported_types:
                device = DeviceBuffer(Vendor(_Handling(made)), tensor_type, int(buffer_type), size)
                return CheckedBuffer(device, self.runtime.buffers.put(device), None)
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"this host does not support the buffer types {list(wanted.supported_types)}",
        )

    def drop_buffer(self, checked: CheckedBuffer) -> None:
        """Releases a buffer; the addresses of its memory are not reused while this host lives."""
        self.runtime.buffers.drop(checked.handle)
        if checked.memory is not None:
            checked.memory.make_forbidden()
            self._released.append(checked.memory)


class _CountedLocks(Buffers):
    """Buffers that record which buffers are locked."""

    def __init__(self, handles: Handles) -> None:
        super().__init__(handles)
        self._locked: set[int] = set()
        self._fault = ""

    def lock_tensor_buffer(self, buffer: int, address: Any, mode: int) -> None:
        if buffer in self._locked:
            self._fault = self._fault or "the vendor locks a buffer that is already locked"
        super().lock_tensor_buffer(buffer, address, mode)
        self._locked.add(buffer)

    def unlock_tensor_buffer(self, buffer: int) -> None:
        if buffer not in self._locked:
            self._fault = self._fault or "the vendor unlocks a buffer that is not locked"
        self._locked.discard(buffer)
        super().unlock_tensor_buffer(buffer)

    def take_fault(self) -> str:
        """Returns the first wrong use of a lock so far."""
        fault = self._fault
        if not fault and self._locked:
            fault = f"{len(self._locked)} of the buffers are still locked"
        self._locked.clear()
        self._fault = ""
        return fault


class _Handling(Dispatch[Any, Any]):
    """The functions of the vendor's table that allocate memory."""

    vendor_id = _OWNER

    def __init__(self, handlers: NativeBufferHandlers) -> None:
        self.buffer_handlers = handlers
