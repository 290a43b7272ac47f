"""Tensor memory as host and vendor hand it to each other (LiteRT's `LiteRtTensorBuffer`)."""

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
"""Of host memory that the runtime allocates, in bytes."""


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
      size: in bytes; where dimensions are unknown, of the largest tensor.
      supported_types: in the vendor's order of preference; the runtime takes HOST_MEMORY if it is there.
      strides: in elements, as a layout's, one for each dimension; empty is row order.
      alignment: of the first byte, in bytes.
      shape: of an output with unknown dimensions, where the shapes of the inputs tell it; None where only a run
        does.
    """

    size: int
    supported_types: Sequence[int] = (BufferType.HOST_MEMORY,)
    strides: Sequence[int] = ()
    alignment: int = ALIGNMENT
    shape: Sequence[int] | None = None


class TensorBuffer:
    """A tensor's memory on the host.

    Attributes:
      buffer_type: the kind of memory; a `BufferType`, or a number of the vendor's.
      tensor_type: element type and shape of what it holds.
      address: of the first byte in this process.
      size: in bytes; at least `tensor_type.size_bytes`.
      owner: what keeps the memory alive; None where the creator of the buffer does.
      event: of the asynchronous run that writes it; None when nothing does.
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
        """A zeroed buffer of its own memory, aligned to a page; `size` is in bytes."""
        import numpy as np  # here, since `dispatch` is imported by commands that run nothing

        size = tensor_type.size_bytes if size is None else size
        memory = map_pages(size)
        address = np.frombuffer(memory, np.uint8).ctypes.data
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
            try:
                event.wait(timeout_s)
            except LiteRtError:
                raise
            except Exception as error:  # an event of a vendor's own
                what = f"the run that writes a buffer failed: {describe(error)}"
                raise LiteRtError(Status.RUNTIME_FAILURE, what) from error
            if self.event is event:
                self.event = None

    @property
    def view(self) -> memoryview:
        """Its bytes, writable; they keep the buffer, and with it its owner, alive."""
        return self._bytes().data

    def array(self) -> np.ndarray[Any, Any]:
        """Its elements as an array over the same memory, which keeps the buffer and its owner alive.

        Raises:
          LiteRtError: UNSUPPORTED, for element types that NumPy has not; RUNTIME_FAILURE, for too few bytes, as an
            op may leave that does not make what the file says.
        """
        tensor_type = self.tensor_type
        if self.size < tensor_type.size_bytes:
            what = f"{self.size} bytes for {tensor_type}, which takes {tensor_type.size_bytes}"
            raise LiteRtError(Status.RUNTIME_FAILURE, what)
        elements = self._bytes()[: tensor_type.size_bytes]
        return elements.view(tensor_type.element_type.numpy_dtype).reshape(tensor_type.shape)

    def copy(self) -> np.ndarray[Any, Any]:
        """Its elements as a new array.

        Raises:
          LiteRtError: as `array`.
        """
        found: np.ndarray[Any, Any] = TensorBuffer.array(self).copy()  # not another's, which lasts
        return found

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The bytes, as NumPy takes them: an array over them has this buffer as its base."""
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self.size,),
            "data": (self.address, False),
        }

    def _bytes(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        import numpy as np

        if not self.size:  # it may have no address, which NumPy before 2.3 takes for a wrong one
            return np.empty(0, np.uint8)
        if not self.address:
            what = f"nothing has written the {self.size} bytes of {self.tensor_type}: they have no memory"
            raise LiteRtError(Status.RUNTIME_FAILURE, what)
        return np.asarray(self)
