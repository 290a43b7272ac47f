"""A tensor buffer in memory of the vendor's own kind, which host and device have in turn."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from dispatch.parts import BufferHandlers, LockMode
from dispatch.tensor_buffer import TensorBuffer
from dispatch.vendor import Vendor, clean_up
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.vendor_call import ENDING, VendorCall

if TYPE_CHECKING:
    import numpy as np


class DeviceBuffer(TensorBuffer):
    """Memory that a vendor's handlers make; destroyed with the last who has it.

    Attributes:
      memory: what the vendor calls it.
      is_steady: whether the host has found it at one address each time.
    """

    __slots__ = (
        "_address", "_handlers", "_is_held", "_is_in_view", "_lock", "_vendor_id", "buffer_type",
        "is_steady", "memory",
    )  # fmt: skip

    def __init__(
        self, vendor: Vendor, tensor_type: RankedTensorType, buffer_type: int, size: int
    ) -> None:
        """Makes zeroed memory of one of the handlers' types; `size` is in bytes, at least the tensor's."""
        self.memory: Any = None
        handlers = vendor.dispatch.buffer_handlers
        assert handlers is not None
        self.tensor_type = tensor_type
        self.buffer_type = buffer_type
        self.size = size
        self.owner = None
        self.event = None
        self.is_steady = True
        self._handlers = handlers
        self._vendor_id = vendor.dispatch.vendor_id
        self._lock = threading.Lock()
        self._address = 0
        self._is_held = False  # by the host
        self._is_in_view = False  # of one who does not ask for the address again
        with self._calling("create"):
            self.memory = handlers.create(tensor_type, buffer_type, size)
        if self.memory is None:
            raise self._nonsense("create", "it returned None")
        import ctypes  # here, since `dispatch` is imported by commands that run nothing

        first = self.address
        ctypes.memset(first, 0, size)
        self.give()
        self.is_steady = self.address == first

    @property
    def address(self) -> int:  # type: ignore[override]  # asked for, in place of kept
        """Of the first byte, in the host's hands: asking takes the memory from the device, until the next run."""
        if not self._is_held:
            with self._lock:
                if not self._is_held:
                    self._address = self._take()
                    self._is_held = True
        return self._address

    def is_of(self, handlers: BufferHandlers[Any] | None) -> bool:
        """Whether these handlers have made it; another vendor's may use the same number for their type."""
        return handlers is self._handlers

    def give(self) -> None:
        """Gives the memory to the device, before a run."""
        if not self._is_held:
            return
        with self._lock:
            if self._is_held:
                self._is_held = False
                self._unlock(self.memory)

    def take_back(self) -> None:
        """Takes the memory back after a run, if there is an array over it, which must be where it was."""
        if not self._is_in_view:
            return
        before = self._address
        now = self.address
        if now != before:
            self.is_steady = self._is_in_view = False
            what = f"memory that an array is over was at {before:#x}, and is at {now:#x} now"
            raise self._nonsense("lock", what)

    def wait(self, timeout_s: float | None = None) -> None:
        """As any buffer's; then takes the memory back."""
        super().wait(timeout_s)
        self.take_back()

    def array(self) -> np.ndarray[Any, Any]:
        """Its elements as an array over the same memory, which keeps it alive; during a run it is the device's.

        Raises:
          LiteRtError: UNSUPPORTED, for memory that is elsewhere each time, and for types that NumPy has not.
        """
        if not self.is_steady:
            what = f"no array over memory of type {self.buffer_type}, which is elsewhere each time"
            raise LiteRtError(Status.UNSUPPORTED, what, hint="Use read and write.")
        self._is_in_view = True
        return super().array()

    def __del__(self) -> None:
        memory, self.memory = self.memory, None
        if memory is None:
            return
        if self._is_held:
            clean_up([lambda: self._unlock(memory)])
        clean_up([lambda: self._destroy(memory)])

    def _take(self) -> int:
        try:
            found = self._handlers.lock(self.memory, LockMode.READ_WRITE)
        except ENDING:
            raise
        except BaseException:
            with self._calling("lock"):
                raise
        if not isinstance(found, int) or (self.size and not found):
            raise self._nonsense("lock", f"the address is {found!r:.80}")
        return found

    def _unlock(self, memory: Any) -> None:
        try:
            self._handlers.unlock(memory)
        except ENDING:
            raise
        except BaseException:
            with self._calling("unlock"):
                raise

    def _destroy(self, memory: Any) -> None:
        with self._calling("destroy"):
            self._handlers.destroy(memory)

    def _calling(self, function: str) -> VendorCall:
        return VendorCall(self._vendor_id, f"{function} of buffer type {self.buffer_type}")

    def _nonsense(self, function: str, what: str) -> LiteRtError:
        where = self._calling(function).where
        hint = VENDOR_REPAIRS
        return LiteRtError(Status.RUNTIME_FAILURE, what, where, hint)
