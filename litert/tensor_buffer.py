"""Buffers that hold a model's inputs and outputs; classes and methods have `ai_edge_litert.tensor_buffer`'s names.

`write` and `read` copy bytes, as in stock LiteRT: if an array has fewer elements than the buffer, only the start
of the buffer is read or written, and if the array's type is not the buffer's, the bytes are copied without a
conversion. To let NumPy check shapes and convert types, use the buffer as an array:
`np.asarray(buffer)[...] = image`.
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
"""DLPack's device type `kDLCPU`, and the index of the only CPU device."""


class TensorBuffer:
    """Memory of one input or output; runs of a model read or write this memory."""

    def __init__(self, buffer: HostBuffer, *, is_flat: bool = False) -> None:
        """Makes a buffer that uses the given memory, without a copy.

        Programs call `create_from_host_memory` or a create method of the model instead of this constructor.
        """
        self._buffer: HostBuffer | None = buffer
        self._is_flat = is_flat
        self._event: Event | None = None
        self._measured_type: RankedTensorType | None = None  # the type whose size is `_limit`
        self._limit = 0

    @classmethod
    def create_from_host_memory(cls, data_array: np.ndarray[Any, Any]) -> TensorBuffer:
        """Creates a buffer that shares the memory of an array.

        A run uses the array's memory without a copy if two conditions are met. The memory must be aligned for the
        kernels: the CPU needs an alignment of 16 bytes, and NPUs commonly need 64 bytes. The array must not end at
        the end of a memory page, because CPU kernels may read slightly past the end of the array. In all other
        cases, each run copies the array's data.

        Args:
          data_array: The array to share, which must be C-contiguous. The buffer keeps the array alive.

        Raises:
          ValueError: If `data_array` is not an array or is not C-contiguous, or if tensors cannot have the array's
            element type.
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
        """The event of the asynchronous run that writes the buffer.

        None if no such run has started, or if a method such as `read` has already waited for the end of
        the run.
        """
        if self._event is None and self._buffer is not None:
            return self._buffer.event
        return self._event

    def write(self, data_array: np.ndarray[Any, Any]) -> None:
        """Copies the bytes of an array to the start of the buffer. The rest of the buffer is not changed.

        Raises:
          ValueError: If `data_array` is not an array, or has a type that `read` does not accept; or if the buffer
            shares a read-only array.
          LiteRtError: INVALID_ARGUMENT, if the buffer is destroyed, or if the array is larger than the buffer's
            tensor.
        """
        import numpy as np

        if not isinstance(data_array, np.ndarray):
            raise ValueError("data_array must be a NumPy array")
        buffer = self._open("write")
        self._check_type(data_array.dtype)
        if is_read_only(buffer):
            raise ValueError("the buffer cannot be written: its memory is a read-only array")
        array = np.ascontiguousarray(data_array)
        size = array.nbytes
        self._check_size(size)
        ctypes.memmove(buffer.address, _address(array), size)

    def read(self, num_elements: int | tuple[int, ...], output_dtype: Any) -> np.ndarray[Any, Any]:
        """Copies bytes from the start of the buffer to a new array.

        Args:
          num_elements: Number of elements to read, or the shape of the new array.
          output_dtype: Type of the new array. The bytes are reinterpreted as this type, not converted.

        Raises:
          ValueError: If the type is not accepted. The function accepts the buffer's own type. For every buffer, it
            also accepts the types that stock LiteRT accepts: bool, int8, uint8, int32, float16, float32, bfloat16
            and two float8 types.
          LiteRtError: INVALID_ARGUMENT, if the buffer is destroyed, or if the array would be larger than the
            buffer's tensor; or the error of the asynchronous run that writes the buffer.
        """
        import numpy as np

        buffer = self._open("read")
        array = np.empty(num_elements, self._check_type(output_dtype))
        size = array.nbytes
        self._check_size(size)
        ctypes.memmove(_address(array), buffer.address, size)
        return array

    def array(self) -> np.ndarray[Any, Any]:
        """Returns an array that shares the buffer's memory and keeps the memory alive.

        Raises:
          LiteRtError: UNSUPPORTED, if NumPy has no type for the buffer's elements; otherwise the errors of `read`.
        """
        buffer = self._open("array")
        array = buffer.array()
        if is_read_only(buffer):
            array.flags.writeable = False
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Returns `array()` to `np.asarray`, or a copy of it if NumPy requests a copy or another type."""
        array = self.array()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"a tensor of type {array.dtype} cannot be converted to {dtype} without a copy"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        """Returns `array()` as a DLPack capsule; `from_dlpack` of other libraries calls this method."""
        return self.array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns DLPack's device type and device index of the CPU."""
        return _DLPACK_CPU

    def __repr__(self) -> str:
        if self._buffer is None:
            return "TensorBuffer(destroyed)"
        details = self.get_tensor_details()
        return f"TensorBuffer({details['dtype']}{details['shape']}, {self._buffer.size} bytes)"

    def get_tensor_details(self) -> dict[str, Any]:
        """Returns the buffer's `dtype` and `shape`.

        If the buffer shares an array of the caller, `shape` contains only the number of elements, as in stock
        LiteRT.
        """
        tensor_type = self._open("get_tensor_details", must_wait=False).tensor_type
        shape = [tensor_type.num_elements] if self._is_flat else list(tensor_type.shape)
        return {"dtype": type_name(tensor_type.element_type), "shape": shape}

    def destroy(self) -> None:
        """Releases the buffer's reference to the memory.

        A model whose last run used the memory keeps the memory alive until the model runs with another buffer.
        """
        with suppress(LiteRtError):  # the result of the run is lost anyway
            self._wait()
        self._buffer = None

    def lend_input(self) -> HostBuffer:
        """Waits for the run that writes the buffer, then returns the memory, so that another run can read it.

        Raises:
          ValueError: If the buffer is destroyed, as in stock LiteRT.
          LiteRtError: The error of the run that writes the buffer, if this run has failed.
        """
        if self._event is not None:
            self._wait()
        return self._not_destroyed()

    def lend_output(self) -> HostBuffer:
        """Waits for the run that writes the buffer, then returns the memory, so that another run can write to it.

        A failure of the run that writes the buffer is ignored.

        Raises:
          ValueError: If the buffer is destroyed, as in stock LiteRT.
        """
        if self._event is not None:
            with suppress(LiteRtError):
                self._wait()
        return self._not_destroyed()

    def lend_unfinished(self) -> tuple[HostBuffer, Event | None]:
        """Returns the memory, and the event of the run that writes it (None if there is no such run).

        The caller must wait for the event before it reads the memory.

        Raises:
          ValueError: If the buffer is destroyed, as in stock LiteRT.
        """
        return self._not_destroyed(), self._event

    def set_event(self, event: Event) -> None:
        """Sets the event of the run that writes the buffer."""
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
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the buffer has been destroyed",
                f"TensorBuffer.{call}",
                "Create a new buffer, or destroy the buffer only after its last use.",
            )
        if must_wait:
            self._wait()
            buffer.wait()
        return buffer

    def _check_type(self, dtype: Any) -> np.dtype[Any]:
        assert self._buffer is not None
        own = self._buffer.tensor_type.element_type
        try:
            return _checked_type(dtype, own)
        except TypeError:  # a value that cannot be hashed is not a type
            raise ValueError(f"Unsupported dtype: {dtype}") from None

    def _check_size(self, size: int) -> None:
        assert self._buffer is not None
        tensor_type = self._buffer.tensor_type
        if tensor_type is not self._measured_type:
            self._measured_type, self._limit = tensor_type, tensor_type.size_bytes
        if size > self._limit:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the array has {size} bytes, but the buffer's tensor has only {self._limit} bytes",
            )


@lru_cache(maxsize=256)
def _checked_type(dtype: Any, own: ElementType) -> np.dtype[Any]:
    """Returns the NumPy type, if arrays of this type can be written to or read from a buffer of type `own`."""
    import numpy as np

    try:
        found: np.dtype[Any] = np.dtype(dtype)
        element_type = ElementType.from_numpy(found)
    except (TypeError, LiteRtError):
        raise ValueError(f"Unsupported dtype: {dtype}") from None
    if found.name not in _STOCK_TYPES and element_type is not own:
        raise ValueError(f"Unsupported dtype: {dtype}; the tensor has type {type_name(own)}")
    return found


def _address(array: np.ndarray[Any, Any]) -> int:
    # A third of the time that `ctypes.data` takes.
    found: int = array.__array_interface__["data"][0]
    return found


def type_name(element_type: ElementType) -> str:
    """Returns the name that stock LiteRT gives to an element type, such as `float32`."""
    return element_type.name.lower()
