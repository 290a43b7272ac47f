"""Tensor memory as host and vendor hand it to each other (LiteRT's `LiteRtTensorBuffer`)."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from dispatch.event import Event
from litert.core.tensor_type import RankedTensorType

if TYPE_CHECKING:
    import numpy as np

ALIGNMENT = 64
"""Of host memory that the runtime allocates, in bytes."""


_WRITABLE = 0x200  # PyBUF_WRITE
# A ctypes array would need a type of its own for each size, which only the garbage collector frees.
_view_memory = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)


class BufferType(IntEnum):
    """LiteRT's `LiteRtTensorBufferType`; other numbers are taken as they are."""

    UNKNOWN = 0
    HOST_MEMORY = 1
    AHWB = 2
    ION = 3
    DMA_BUF = 4
    FAST_RPC = 5
    OPENCL_BUFFER = 10


@dataclass(frozen=True, slots=True)
class TensorBufferRequirements:
    """What a vendor wants of a buffer (LiteRT's `LiteRtTensorBufferRequirements`).

    Attributes:
      size: in bytes.
      supported_types: in the vendor's order of preference; the runtime takes HOST_MEMORY if it is there.
      strides: in bytes, one for each dimension; empty is row order.
      alignment: of the first byte, in bytes.
    """

    size: int
    supported_types: Sequence[int] = (BufferType.HOST_MEMORY,)
    strides: Sequence[int] = ()
    alignment: int = ALIGNMENT


class TensorBuffer:
    """A tensor's memory on the host.

    Attributes:
      tensor_type: element type and shape of what it holds.
      address: of the first byte in this process.
      size: in bytes; at least `tensor_type.size_bytes`.
      owner: what keeps the memory alive; None where the creator of the buffer does.
      event: of the asynchronous run that writes it; None when nothing does.
    """

    __slots__ = ("address", "event", "owner", "size", "tensor_type")

    buffer_type = BufferType.HOST_MEMORY

    def __init__(
        self, tensor_type: RankedTensorType, address: int, size: int, owner: object = None
    ) -> None:
        self.tensor_type = tensor_type
        self.address = address
        self.size = size
        self.owner = owner
        self.event: Event | None = None

    @classmethod
    def allocate(cls, tensor_type: RankedTensorType, size: int | None = None) -> TensorBuffer:
        """A zeroed buffer of its own memory, aligned to a page; `size` is in bytes."""
        size = tensor_type.size_bytes if size is None else size
        # Private: shared memory, the default, is slower to touch first.
        memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return cls(tensor_type, address, size, memory)

    @classmethod
    def wrap(cls, array: np.ndarray[Any, Any]) -> TensorBuffer:
        """A buffer over a C-contiguous array's own memory, whatever its alignment."""
        from litert.core.element_type import ElementType

        assert array.flags.c_contiguous
        tensor_type = RankedTensorType.of(ElementType.from_numpy(array.dtype), array.shape)
        return cls(tensor_type, array.ctypes.data, array.nbytes, array)

    def wait(self, timeout_s: float | None = None) -> None:
        """Waits for the asynchronous run that writes it, if there is one.

        Raises:
          LiteRtError: TIMEOUT_EXPIRED, or that of the run; until another run, what the buffer holds is unknown.
        """
        event = self.event
        if event is not None:
            event.wait(timeout_s)
            if self.event is event:
                self.event = None

    @property
    def view(self) -> memoryview:
        """Its bytes, writable. Valid as long as the buffer's memory is."""
        view: memoryview = _view_memory(self.address, self.size, _WRITABLE)
        return view

    def array(self) -> np.ndarray[Any, Any]:
        """Its elements as an array over the same memory.

        Raises:
          LiteRtError: UNSUPPORTED, for element types that NumPy has not.
        """
        import numpy as np

        tensor_type = self.tensor_type
        flat: np.ndarray[Any, Any] = np.frombuffer(
            self.view, tensor_type.element_type.numpy_dtype, tensor_type.num_elements
        )
        return flat.reshape(tensor_type.shape)
