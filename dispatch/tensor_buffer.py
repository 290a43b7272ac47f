"""Tensor buffers that host and vendor pass to each other (LiteRT's `LiteRtTensorBuffer`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from dispatch.event import Event
from dispatch.host_pages import map_pages
from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

if TYPE_CHECKING:
    import numpy as np

ALIGNMENT = 64
"""Alignment in bytes of the host memory that the runtime allocates."""


class BufferType(IntEnum):
    """The memory type of a tensor buffer (LiteRT's `LiteRtTensorBufferType`); vendors may use other numbers."""

    UNKNOWN = 0
    HOST_MEMORY = 1
    AHWB = 2
    ION = 3
    DMA_BUF = 4
    FAST_RPC = 5
    OPENCL_BUFFER = 10


@dataclass(frozen=True, slots=True)
class TensorBufferRequirements:
    """A vendor's requirements for the buffer of an input or output (LiteRT's `LiteRtTensorBufferRequirements`).

    Attributes:
      size: Required size in bytes; if dimensions are unknown, the size of the largest possible tensor.
      supported_types: Memory types that the vendor supports, in order of preference; if the list contains
        HOST_MEMORY, the runtime uses host memory.
      strides: Required strides in elements, one for each dimension; empty for row-major order.
      alignment: Required alignment of the first byte's address, in bytes.
      shape: Full shape of an output with unknown dimensions, if the input shapes determine it; None if the shape
        is known only after a run.
    """

    size: int
    supported_types: Sequence[int] = (BufferType.HOST_MEMORY,)
    strides: Sequence[int] = ()
    alignment: int = ALIGNMENT
    shape: Sequence[int] | None = None


class TensorBuffer:
    """A block of memory that holds a tensor.

    Attributes:
      buffer_type: Type of the memory: a `BufferType`, or a vendor's own number.
      tensor_type: Element type and shape of the tensor in the buffer.
      address: Address of the first byte in this process.
      size: Size of the memory in bytes; at least `tensor_type.size_bytes`.
      owner: Object that keeps the memory alive; None if the buffer's creator must keep the memory alive.
      event: Event of the asynchronous run that writes the buffer; None if no asynchronous run is writing the
        buffer.
    """

    __slots__ = ("address", "event", "owner", "size", "tensor_type")

    buffer_type: int = BufferType.HOST_MEMORY

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
        """Allocates a buffer of zeroed memory that is aligned to a page; `size` is in bytes."""
        import numpy as np  # here, since `dispatch` is imported by commands that run nothing

        size = tensor_type.size_bytes if size is None else size
        memory = map_pages(size)
        address = np.frombuffer(memory, np.uint8).ctypes.data
        return cls(tensor_type, address, size, memory)

    @classmethod
    def wrap(cls, array: np.ndarray[Any, Any]) -> TensorBuffer:
        """Makes a buffer that shares the memory of a C-contiguous array; the array may be unaligned."""
        from litert.core.element_type import ElementType

        assert array.flags.c_contiguous
        tensor_type = RankedTensorType.of(ElementType.from_numpy(array.dtype), array.shape)
        return cls(tensor_type, array.ctypes.data, array.nbytes, array)

    def wait(self, timeout_s: float | None = None) -> None:
        """If an asynchronous run is writing the buffer, waits for the end of the run.

        Raises:
          LiteRtError: TIMEOUT_EXPIRED, if the run does not end within `timeout_s`; or the error of the
            asynchronous run. After an error, the content of the buffer is undefined until the next run.
        """
        event = self.event
        if event is not None:
            try:
                event.wait(timeout_s)
            except LiteRtError:
                raise
            except Exception as error:  # raised by a vendor's own event class
                what = "the buffer has no valid content, because the run that writes the buffer failed: "
                raise LiteRtError(Status.RUNTIME_FAILURE, what + describe(error)) from error
            if self.event is event:
                self.event = None

    @property
    def view(self) -> memoryview:
        """Returns the buffer's bytes as a writable memoryview, which keeps the buffer and its owner alive."""
        return self._bytes().data

    def array(self) -> np.ndarray[Any, Any]:
        """Returns the elements as an array that shares the buffer's memory, and keeps the buffer alive.

        Raises:
          LiteRtError: UNSUPPORTED, if NumPy has no such element type; RUNTIME_FAILURE, if the buffer is too small
            for the tensor.
        """
        tensor_type = self.tensor_type
        if self.size < tensor_type.size_bytes:
            needed = tensor_type.size_bytes
            what = f"the buffer has {self.size} bytes, but its tensor of type {tensor_type} needs {needed} bytes"
            raise LiteRtError(Status.RUNTIME_FAILURE, what)
        elements = self._bytes()[: tensor_type.size_bytes]
        return elements.view(tensor_type.element_type.numpy_dtype).reshape(tensor_type.shape)

    def copy(self) -> np.ndarray[Any, Any]:
        """Returns a copy of the elements as a new array.

        Raises:
          LiteRtError: Any error of `array`.
        """
        found: np.ndarray[Any, Any] = TensorBuffer.array(
            self
        ).copy()  # not the array of a subclass, which locks the memory
        return found

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface; an array made from it has this buffer as its base."""
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self.size,),
            "data": (self.address, False),
        }

    def _bytes(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        import numpy as np

        if not self.size:  # NumPy before 2.3 refuses the address 0
            return np.empty(0, np.uint8)
        if not self.address:
            what = (
                f"the buffer of type {self.tensor_type} ({self.size} bytes) has no memory yet, "
                "because no run has written the buffer"
            )
            hint = "Run the model before you read the buffer."
            raise LiteRtError(Status.RUNTIME_FAILURE, what, hint=hint)
        return np.asarray(self)
