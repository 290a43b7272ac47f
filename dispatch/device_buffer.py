"""Tensor buffers in a vendor's device memory; the host and the device access the memory in turn."""

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
    """Memory that a vendor's buffer handlers have allocated; it is freed when no reference to it is left.

    Attributes:
      memory: The vendor's object that identifies the memory.
      is_steady: Whether every lock has returned the same address so far.
    """

    __slots__ = (
        "_address", "_handlers", "_is_held", "_is_in_view", "_lock", "_vendor_id", "buffer_type",
        "is_steady", "memory",
    )  # fmt: skip

    def __init__(
        self, vendor: Vendor, tensor_type: RankedTensorType, buffer_type: int, size: int
    ) -> None:
        """Allocates `size` zeroed bytes in memory of one of the handlers' types; the tensor must fit into them."""
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
        self._is_in_view = False  # an array uses the memory without reading the address again
        with self._calling("create"):
            self.memory = handlers.create(tensor_type, buffer_type, size)
        if self.memory is None:
            raise self._nonsense("create", "create returned None, not a memory object")
        import ctypes  # here, since `dispatch` is imported by commands that run nothing

        first = self.address
        ctypes.memset(first, 0, size)
        self.give()
        self.is_steady = self.address == first

    @property
    def address(self) -> int:  # type: ignore[override]  # a property in place of a field
        """Address of the first byte; reading this property locks the memory for the host until the next run."""
        if not self._is_held:
            with self._lock:
                if not self._is_held:
                    self._address = self._take()
                    self._is_held = True
        return self._address

    def is_of(self, handlers: BufferHandlers[Any] | None) -> bool:
        """Returns whether these handlers allocated the memory.

        The number of the memory type does not show this, because vendors may use the same number.
        """
        return handlers is self._handlers

    def give(self) -> None:
        """Unlocks the memory before a run, so that the device can use it."""
        if not self._is_held:
            return
        with self._lock:
            if self._is_held:
                self._is_held = False
                self._unlock(self.memory)

    def take_back(self) -> None:
        """After a run, locks the memory for the host if an array uses it; the address must not have changed."""
        if not self._is_in_view:
            return
        before = self._address
        now = self.address
        if now != before:
            self.is_steady = self._is_in_view = False
            what = (
                f"lock returned the address {now:#x}, but the host still has an array at the memory's previous "
                f"address {before:#x}"
            )
            raise self._nonsense("lock", what)

    def wait(self, timeout_s: float | None = None) -> None:
        """Waits for the run that writes the buffer, then locks the memory for the host."""
        super().wait(timeout_s)
        self.take_back()

    def array(self) -> np.ndarray[Any, Any]:
        """Returns the elements as an array that shares the buffer's memory; do not use the array during a run.

        Raises:
          LiteRtError: UNSUPPORTED, if the memory's address changes with each lock, or if NumPy has no such element
            type.
        """
        if not self.is_steady:
            what = (
                f"an array cannot share the memory of a buffer of type {self.buffer_type}, because "
                "the memory's address changes each time the vendor locks the memory"
            )
            raise LiteRtError(
                Status.UNSUPPORTED,
                what,
                hint="Copy the data with the buffer's methods read and write.",
            )
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
            raise self._nonsense(
                "lock", f"lock returned {found!r:.80}, which is not a valid address"
            )
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
