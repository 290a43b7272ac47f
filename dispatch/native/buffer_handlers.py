"""A dispatch library's memory of its own kind, by the handlers in its table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from dispatch.api import BufferHandlers, LockMode
from dispatch.native.answers import check_answer
from dispatch.tensor_buffer import BufferType
from litert.abi.definitions import ffi
from litert.abi.tensor_types import to_c
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

_new_address = partial(ffi.new, ffi.typeof("void**"))  # types by name take longer to find
_as_number = partial(ffi.cast, ffi.typeof("uintptr_t"))
_NEEDED = ("create_func", "destroy_func", "lock_func", "unlock_func")


class NativeBufferHandlers(BufferHandlers[Any]):
    """Handlers of a library. Memory is cffi's `HwMemoryInfo*`."""

    def __init__(self, definition: Any, where: str) -> None:
        """Looks at the handlers.

        Args:
          definition: cffi's `LiteRtCustomTensorBufferHandlersDef*`.
          where: the library's file, for messages.

        Raises:
          LiteRtError: DYNAMIC_LOADING, if something is missing.
        """
        missing = [name for name in _NEEDED if not getattr(definition, name)]
        if missing:
            raise _broken(f"its buffer handlers have no {', '.join(missing)}", where)
        self._functions = definition
        self._lock, self._unlock = definition.lock_func, definition.unlock_func
        self.supported_types = _types(definition, where)

    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Any:
        c_type, info = ffi.new("LiteRtRankedTensorType*"), ffi.new("HwMemoryInfoPtr*")
        to_c(tensor_type, c_type)
        # No device, no queue: those are for handlers that stand on a graphics environment.
        check_answer(
            self._functions.create_func(
                ffi.NULL, ffi.NULL, c_type, buffer_type, size, tensor_type.size_bytes, info
            )
        )
        return info[0] or None

    def destroy(self, memory: Any) -> None:
        check_answer(self._functions.destroy_func(memory))

    def lock(self, memory: Any, mode: LockMode) -> int:
        address = _new_address()
        status = self._lock(memory, mode, address)
        if status:
            check_answer(status)
        return int(_as_number(address[0]))

    def unlock(self, memory: Any) -> None:
        status = self._unlock(memory)
        if status:
            check_answer(status)


def _types(definition: Any, where: str) -> Sequence[int]:
    number, types = int(definition.num_supported_buffer_types), definition.supported_buffer_types
    if not 0 < number <= len(types):
        raise _broken(f"its buffer handlers are for {number} types of memory", where)
    found = [int(types[i]) for i in range(number)]
    if min(found) <= BufferType.HOST_MEMORY:
        raise _broken(f"its buffer handlers are for the types of memory {found}", where)
    return found


def _broken(what: str, where: str) -> LiteRtError:
    return LiteRtError(Status.DYNAMIC_LOADING, what, where, "This is the vendor's to repair.")
