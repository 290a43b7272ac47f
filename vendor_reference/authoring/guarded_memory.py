"""Host memory for a tensor, with a guard on either side: a kernel that writes past its tensor is found out."""

from __future__ import annotations

from typing import Any

import numpy as np

from dispatch.tensor_buffer import ALIGNMENT, TensorBuffer
from litert.core.tensor_type import RankedTensorType

_GUARD_BYTES = 4096
_GUARD = 0xA5

Array = np.ndarray[Any, np.dtype[Any]]


class GuardedMemory:
    """A tensor's memory.

    Attributes:
      tensor_type: of what it holds.
      array: it as NumPy has it.
      buffer: it as a vendor gets it.
    """

    def __init__(self, tensor_type: RankedTensorType) -> None:
        """Allocates it, filled with zeros."""
        size = tensor_type.size_bytes
        self._memory: Array = np.full(size + 2 * _GUARD_BYTES + ALIGNMENT, _GUARD, np.uint8)
        place = self._memory.ctypes.data + _GUARD_BYTES
        self._start = _GUARD_BYTES + -place % ALIGNMENT
        self._end = self._start + size
        self.tensor_type = tensor_type
        dtype = tensor_type.element_type.numpy_dtype
        self._bytes = self._memory[self._start : self._end]
        self.array: Array = self._bytes.view(dtype).reshape(tensor_type.shape)
        address = self._memory.ctypes.data + self._start
        self.buffer = TensorBuffer(tensor_type, address, size, self._memory)
        self.fill(0)

    def fill(self, byte: int) -> None:
        """Sets all its bytes, and none of the guards'."""
        self._bytes[:] = byte

    def content(self) -> bytes:
        """A copy of its bytes."""
        return self._bytes.tobytes()

    def damage(self) -> int | None:
        """The first byte written outside of the tensor, counted from its start; None if there is none.

        What lies farther away than a guard is wide is not seen.
        """
        for begin, end in ((0, self._start), (self._end, len(self._memory))):
            changed = np.flatnonzero(self._memory[begin:end] != _GUARD)
            if len(changed):
                return int(changed[0]) + begin - self._start
        return None
