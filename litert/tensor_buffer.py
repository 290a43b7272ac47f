"""A tensor's memory, as programs have it; names are those of `ai_edge_litert.tensor_buffer`.

`write` and `read` copy bytes, as stock's do: an array of fewer elements changes those at the start, and one of
another type has the same bytes. NumPy checks shapes and converts types where a program uses the buffer as an
array: `np.asarray(buffer)[...] = image`.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dispatch.event import Event
from dispatch.tensor_buffer import TensorBuffer as HostBuffer
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.runtime.host_memory import is_read_only

if TYPE_CHECKING:
    import numpy as np

_STOCK_TYPES = (
    "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "int8", "uint8",
    "bool",
)  # fmt: skip

_DLPACK_CPU = (1, 0)
"""`kDLCPU`, and its only device."""


class TensorBuffer:
    """Memory for one input or output; what a run reads and writes."""

    def __init__(self, buffer: HostBuffer, *, is_flat: bool = False) -> None:
        """For the models' create functions, and `create_from_host_memory`."""
        self._buffer: HostBuffer | None = buffer
        self._is_flat = is_flat
        self._event: Event | None = None
        self._measured_type: RankedTensorType | None = None  # whose size is known
        self._limit = 0

    @classmethod
    def create_from_host_memory(cls, data_array: np.ndarray[Any, Any]) -> TensorBuffer:
        """A buffer over an array's own memory: what one writes, the other shows.

        A run works in that memory, if it is aligned as the kernels need it (to 16 bytes for the CPU, for an NPU
        as its vendor asks, commonly 64), and does not end with its page; else it copies to and from it.

        Args:
          data_array: C-contiguous; kept as long as the buffer.

        Raises:
          ValueError: if it is no array, not contiguous, or of a type that no tensor has.
        """
        import numpy as np

        if not isinstance(data_array, np.ndarray):
            raise ValueError("data_array must be a NumPy array")
        if not data_array.flags.c_contiguous:
            raise ValueError("data_array must be C-contiguous for zero-copy host-memory binding")
        try:
            return cls(HostBuffer.wrap(data_array), is_flat=True)
        except LiteRtError:
            raise ValueError(f"Unsupported dtype: {data_array.dtype}") from None

    @property
    def event(self) -> Event | None:
        """Of the asynchronous run that writes it; None when there is none, or it has been waited for."""
        if self._event is None and self._buffer is not None:
            return self._buffer.event
        return self._event

    def write(self, data_array: np.ndarray[Any, Any]) -> None:
        """Copies an array's elements to the start of the buffer, as bytes: what is behind them stays.

        Raises:
          ValueError: if it is no array, or of a type that is neither the buffer's nor one of stock's.
          LiteRtError: INVALID_ARGUMENT, if it is larger than the tensor, or the buffer is destroyed.
        """
        import numpy as np

        if not isinstance(data_array, np.ndarray):
            raise ValueError("data_array must be a NumPy array")
        buffer = self._open("write")
        self._check_type(data_array.dtype)
        if is_read_only(buffer):
            raise ValueError("the buffer's memory is a read-only array")
        array = np.ascontiguousarray(data_array)
        size = array.nbytes
        self._check_size(size)
        ctypes.memmove(buffer.address, _address(array), size)

    def read(self, num_elements: int | tuple[int, ...], output_dtype: Any) -> np.ndarray[Any, Any]:
        """Copies elements from the start of the buffer, as bytes.

        Args:
          num_elements: how many, or a shape.
          output_dtype: of the array, which is not converted to it.

        Raises:
          ValueError: for a type that is neither the buffer's nor one of stock's.
          LiteRtError: INVALID_ARGUMENT, if that is more than the tensor has, or the buffer is destroyed; what an
            asynchronous run failed with.
        """
        import numpy as np

        buffer = self._open("read")
        array = np.empty(num_elements, self._check_type(output_dtype))
        size = array.nbytes
        self._check_size(size)
        ctypes.memmove(_address(array), buffer.address, size)
        return array

    def array(self) -> np.ndarray[Any, Any]:
        """The tensor as an array over the same memory, which lives as long as the array.

        Raises:
          LiteRtError: UNSUPPORTED, for element types that NumPy has not; as `read`.
        """
        buffer = self._open("array")
        array = buffer.array()
        if is_read_only(buffer):
            array.flags.writeable = False
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """For `np.asarray` and its like: `array()`, or a copy for another type, or where NumPy wants one."""
        array = self.array()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a tensor of {array.dtype} is no array of {dtype} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        """For `from_dlpack` of other libraries: `array()`, with its `options` and errors as NumPy has them."""
        return self.array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number for the CPU's memory."""
        return _DLPACK_CPU

    def __repr__(self) -> str:
        if self._buffer is None:
            return "TensorBuffer(destroyed)"
        details = self.get_tensor_details()
        return f"TensorBuffer({details['dtype']}{details['shape']}, {self._buffer.size} bytes)"

    def get_tensor_details(self) -> dict[str, Any]:
        """`dtype` and `shape`; memory of the caller's is flat, as in stock."""
        tensor_type = self._open("get_tensor_details", must_wait=False).tensor_type
        shape = [tensor_type.num_elements] if self._is_flat else list(tensor_type.shape)
        return {"dtype": type_name(tensor_type.element_type), "shape": shape}

    def destroy(self) -> None:
        """Lets go of the memory, as the model does that ran with it last once it runs with another."""
        with suppress(LiteRtError):  # nobody will look at what the run wrote
            self._wait()
        self._buffer = None

    def lend_input(self) -> HostBuffer:
        """The memory, for a run to read, once no other run writes it.

        Raises:
          ValueError: if the buffer is destroyed, as stock.
          LiteRtError: what the run failed with that was to write it.
        """
        if self._event is not None:
            self._wait()
        return self._not_destroyed()

    def lend_output(self) -> HostBuffer:
        """The memory, for a run to write, once no other run writes it; whether that one failed or not.

        Raises:
          ValueError: if the buffer is destroyed, as stock.
        """
        if self._event is not None:
            with suppress(LiteRtError):
                self._wait()
        return self._not_destroyed()

    def lend_unfinished(self) -> tuple[HostBuffer, Event | None]:
        """The memory, and what to wait for before it is read.

        Raises:
          ValueError: if the buffer is destroyed, as stock.
        """
        return self._not_destroyed(), self._event

    def set_event(self, event: Event) -> None:
        """Says which run writes it."""
        self._event = event

    def _not_destroyed(self) -> HostBuffer:
        if self._buffer is None:
            raise ValueError("TensorBuffer has been destroyed")
        return self._buffer

    def _wait(self) -> None:
        event, self._event = self._event, None
        if event is not None:
            event.wait()

    def _open(self, call: str, *, must_wait: bool = True) -> HostBuffer:
        buffer = self._buffer
        if buffer is None:
            raise LiteRtError(Status.INVALID_ARGUMENT, "the buffer has been destroyed", call)
        if must_wait:
            self._wait()
            buffer.wait()
        return buffer

    def _check_type(self, dtype: Any) -> np.dtype[Any]:
        assert self._buffer is not None
        own = self._buffer.tensor_type.element_type
        try:
            return _checked_type(dtype, own)
        except TypeError:  # what no dictionary takes is no type either
            raise ValueError(f"Unsupported dtype: {dtype}") from None

    def _check_size(self, size: int) -> None:
        assert self._buffer is not None
        tensor_type = self._buffer.tensor_type
        if tensor_type is not self._measured_type:
            self._measured_type, self._limit = tensor_type, tensor_type.size_bytes
        if size > self._limit:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, f"the array has {size} bytes, and the tensor {self._limit}"
            )


@lru_cache(maxsize=256)
def _checked_type(dtype: Any, own: ElementType) -> np.dtype[Any]:
    """A type of NumPy's that a buffer of the type `own` may be written from and read into."""
    import numpy as np

    try:
        found: np.dtype[Any] = np.dtype(dtype)
        element_type = ElementType.from_numpy(found)
    except (TypeError, LiteRtError):
        raise ValueError(f"Unsupported dtype: {dtype}") from None
    if found.name not in _STOCK_TYPES and element_type is not own:
        raise ValueError(f"Unsupported dtype: {dtype}; the tensor is {type_name(own)}")
    return found


def _address(array: np.ndarray[Any, Any]) -> int:
    # A third of the time that `ctypes.data` takes.
    found: int = array.__array_interface__["data"][0]
    return found


def type_name(element_type: ElementType) -> str:
    """An element type as stock names it in details: `float32`."""
    return element_type.name.lower()
