"""Makes `LiteRtCustomTensorBufferHandlersDef`, so that hosts can allocate the device memory of a Python table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dispatch.api import BufferHandlers, LockMode
from dispatch.tensor_buffer import TensorBuffer
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.abi.tensor_types import from_c
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.vendor_call import VendorCall

_NO_TAG = 255  # kLiteRtEnvOptionTagNull: no device, no queue


@dataclass(slots=True, eq=False)
class _Memory:
    """A block of device memory, and the host's `HwMemoryInfo*` for it."""

    value: Any
    info: Any


class ExportedBuffer(TensorBuffer):
    """A buffer of the host in the vendor's device memory."""

    __slots__ = ("buffer_type", "memory")

    def __init__(
        self, tensor_type: RankedTensorType, buffer_type: int, size: int, memory: Any
    ) -> None:
        super().__init__(tensor_type, 0, size)  # device memory has no host address
        self.buffer_type = buffer_type
        self.memory = memory


class MemoryFunctions:
    """C functions that call one table's buffer handlers; the number in `memory_handle` identifies the memory."""

    def __init__(self, handlers: BufferHandlers[Any], vendor_id: str) -> None:
        self.types = tuple(handlers.supported_types)
        self._handlers = handlers
        self._vendor_id = vendor_id
        self._handles = Handles()

    def describe(self, definition: Any) -> None:
        """Fills all fields of a `LiteRtCustomTensorBufferHandlersDef*` except the functions."""
        if len(self.types) > len(definition.supported_buffer_types):
            raise LiteRtError(
                Status.DYNAMIC_LOADING,
                f"buffer_handlers support {len(self.types)} types of memory, but LiteRT's C "
                f"interface supports at most {len(definition.supported_buffer_types)}",
                f"vendor '{self._vendor_id}'",
                VENDOR_REPAIRS,
            )
        definition.abi_header.struct_size = ffi.sizeof("LiteRtCustomTensorBufferHandlersDef")
        definition.abi_header.major_version = 1
        definition.device_tag = definition.queue_tag = _NO_TAG
        definition.num_supported_buffer_types = len(self.types)
        definition.supported_buffer_types[0 : len(self.types)] = self.types

    def buffer(
        self, tensor_type: RankedTensorType, buffer_type: int, size: int, memory_handle: Any
    ) -> ExportedBuffer:
        """Returns a buffer of the host in device memory that `create_func` allocated."""
        memory = self._handles.get(memory_handle, _Memory)
        return ExportedBuffer(tensor_type, buffer_type, size, memory.value)

    def create_func(
        self,
        device: Any,
        queue: Any,
        tensor_type: Any,
        buffer_type: int,
        size: int,
        packed_size: int,
        info: Any,
    ) -> None:
        wanted = from_c(tensor_type)
        if not info:
            what = "the host passed NULL as the pointer to memory for the result"
            raise LiteRtError(Status.INVALID_ARGUMENT, what)
        if buffer_type not in self.types:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the host requests memory of type {buffer_type}, but vendor '{self._vendor_id}' supports only "
                f"the memory types {', '.join(map(str, self.types))}",
            )
        with self._calling("create"):
            value = self._handlers.create(wanted, buffer_type, size)
        if value is None:
            raise self._nonsense("create", "create returned None, not a memory object")
        memory = _Memory(value, ffi.new("HwMemoryInfoPtr"))
        memory.info.memory_handle = ffi.cast("void*", self._handles.put(memory))
        info[0] = memory.info

    def destroy_func(self, info: Any) -> None:
        memory = self._find(info)
        self._handles.drop(memory.info.memory_handle)
        with self._calling("destroy"):
            self._handlers.destroy(memory.value)

    def lock_func(self, info: Any, mode: int, address: Any) -> None:
        memory = self._find(info)
        with self._calling("lock"):
            found = self._handlers.lock(memory.value, LockMode(mode))
        if not isinstance(found, int) or not found:
            raise self._nonsense(
                "lock", f"lock returned {found!r:.80}, which is not a valid address"
            )
        address[0] = ffi.cast("void*", found)

    def unlock_func(self, info: Any) -> None:
        with self._calling("unlock"):
            self._handlers.unlock(self._find(info).value)

    def _find(self, info: Any) -> _Memory:
        if not info:
            raise LiteRtError(Status.INVALID_ARGUMENT, "the host passed NULL as the memory")
        return self._handles.get(info.memory_handle, _Memory)

    def _calling(self, function: str) -> VendorCall:
        return VendorCall(self._vendor_id, f"{function} of buffer_handlers")

    def _nonsense(self, function: str, what: str) -> LiteRtError:
        where = self._calling(function).where
        return LiteRtError(Status.RUNTIME_FAILURE, what, where, VENDOR_REPAIRS)
