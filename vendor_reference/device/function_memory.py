"""Finds the device memory for arguments of a function's tasks: the function's memory or attached buffers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeAlias

import numpy as np
import pyopencl as cl

from dispatch.host_pages import map_pages, touch_pages
from litert.core.sizes import Shapes
from litert.core.tensor_type import RankedTensorType
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.executable.executable import (
    ALIGNMENT,
    Argument,
    ArgumentKind,
    Function,
    ShapeKind,
    Tap,
)

Slot: TypeAlias = tuple[ArgumentKind, int]
"""Kind (INPUT or OUTPUT) and index of an input or output of a function."""

Value: TypeAlias = "bytes | cl.Buffer | cl.LocalMemory | None"
"""Value that is bound to a kernel argument."""


_MOST_TOUCHED = 64 << 20
"""Largest size of an arena whose pages are touched before the first run, in bytes."""


def find_slot(argument: Argument) -> Slot | None:
    """Returns the input or output of the function that an argument refers to; None for other arguments."""
    if argument.kind in (ArgumentKind.INPUT, ArgumentKind.OUTPUT):
        return argument.kind, argument.index
    return None


class FunctionMemory:
    """Device memory of one function.

    Attributes:
      attached: Memory that is attached to the function's inputs and outputs.
      output_bytes: Sizes of the function's outputs, in bytes.
    """

    def __init__(
        self, context: OpenClContext, function: Function, constants: Mapping[int, BufferMemory]
    ) -> None:
        """Allocates the function's memory; `constants` are the constants that the tasks use, by index."""
        self.attached: dict[Slot, cl.Buffer | None] = {}
        self.output_bytes = [tensor_type.size_bytes for tensor_type in function.outputs]
        self._shapes = function.shapes
        self._inputs = function.inputs
        shapes = enumerate(function.shapes)
        self._input_shapes = {s.index: i for i, s in shapes if s.kind is ShapeKind.INPUT}
        self._constants = constants
        self._cl_context = context.cl_context
        self._scratch: cl.Buffer | None = None
        self._arenas = {
            ArgumentKind.DDR: _Arena(context, function.ddr_size, bool(function.shapes)),
            ArgumentKind.CMX: _Arena(context, function.cmx_size, bool(function.shapes)),
        }

    def value(self, argument: Argument) -> Value:
        """Returns the value to pass to a kernel for an argument that is not an input or output of the function."""
        if argument.kind is ArgumentKind.CONSTANT:
            return self._constants[argument.index].buffer
        if argument.kind is ArgumentKind.SHAPE:
            return self.shape_place(argument.index)
        if argument.kind is ArgumentKind.LOCAL:
            return cl.LocalMemory(argument.size_bytes)
        if argument.kind is ArgumentKind.SCALAR:
            return argument.scalar
        return self._arenas[argument.kind].place(argument.offset, argument.size_bytes)

    def size_bytes(self, argument: Argument, shapes: Shapes) -> int:
        """Returns the size in bytes that a non-constant argument has for the given shapes."""
        if argument.kind is ArgumentKind.OUTPUT:
            return self.output_bytes[argument.index]
        if argument.kind is not ArgumentKind.INPUT:
            return argument.size_bytes
        largest, shape = self._inputs[argument.index], self.find_shape(argument)
        if shape is not None:
            largest = RankedTensorType.of(largest.element_type, tuple(shapes(shape)))
        return largest.size_bytes

    def find_shape(self, argument: Argument) -> int | None:
        """If callers set the shape of an input argument, returns the index of this shape.

        Returns None for arguments of fixed size.
        """
        if argument.kind is not ArgumentKind.INPUT:
            return None
        return self._input_shapes.get(argument.index)

    def arena(self, kind: ArgumentKind) -> cl.Buffer | None:
        """Returns the whole DDR or CMX arena; None if the arena is empty."""
        return self._arenas[kind].buffer

    def origin(self, argument: Argument) -> int:
        """Returns the offset of an argument's memory in the DDR or CMX arena, in bytes."""
        return self._arenas[argument.kind].origin(argument.offset)

    def scratch(self, size_bytes: int) -> cl.Buffer:
        """Returns the scratch memory that all library layers use in turn; the first call fixes the size."""
        if self._scratch is None:
            flags = cl.mem_flags.READ_WRITE
            self._scratch = cl.Buffer(self._cl_context, flags, size_bytes)
        return self._scratch

    def read(self, queue: cl.CommandQueue, tap: Tap) -> bytes:
        """Waits for all enqueued work, then returns the current data of a tensor in row-major order."""
        slot, dtype = find_slot(tap.argument), tap.tensor_type.element_type.numpy_dtype
        place = self.value(tap.argument) if slot is None else self.attached[slot]
        if not tap.tensor_type.num_elements:
            return b""
        assert isinstance(place, cl.Buffer)
        memory = np.empty(place.size, np.uint8)
        cl.enqueue_copy(queue, memory, place, is_blocking=True)
        numbers = memory[tap.offset * dtype.itemsize :]
        steps = [step * dtype.itemsize for step in tap.strides]
        data: bytes = np.ndarray(tap.tensor_type.shape, dtype, numbers.data, 0, steps).tobytes()
        return data

    def shape_place(self, index: int) -> cl.Buffer:
        """Returns the device memory that contains the dimensions of the shape with the given index."""
        shape = self._shapes[index]
        place = self._arenas[ArgumentKind.DDR].place(shape.offset, shape.size_bytes)
        assert place is not None
        return place

    def close(self) -> None:
        """Releases all memory of the function."""
        self.attached.clear()
        self._arenas.clear()
        self._constants = {}


def spread_offset(offset: int, alignment: int) -> int:
    """Converts an offset in the DDR arena for a device that needs a larger alignment.

    Args:
      offset: Offset that the executable gives, in bytes, a multiple of `ALIGNMENT`.
      alignment: Alignment that the device needs, in bytes, a power of two. If the alignment is larger than
        `ALIGNMENT`, all offsets grow by the same factor.
    """
    return offset * max(1, alignment // ALIGNMENT)


class _Arena:
    """A function's DDR or CMX arena: one buffer, which is allocated once, with subbuffers for the tensors.

    The pages of a dynamic function's arena are touched in advance, unless the arena is very large; otherwise the
    first run with a larger shape would have to wait for page faults.
    """

    def __init__(self, context: OpenClContext, size_bytes: int, is_dynamic: bool) -> None:
        self._alignment = context.cl_device.mem_base_addr_align // 8
        self.buffer: cl.Buffer | None = None
        if size_bytes:
            size, flags = spread_offset(size_bytes, self._alignment), cl.mem_flags
            pages = None
            if context.in_place:
                with suppress(OSError):  # too large: the driver reports the error below
                    pages = map_pages(size)
                    if is_dynamic and size <= _MOST_TOUCHED:
                        touch_pages(pages)
            if pages is None:
                self.buffer = cl.Buffer(context.cl_context, flags.READ_WRITE, size)
            else:
                use = flags.READ_WRITE | flags.USE_HOST_PTR
                self.buffer = cl.Buffer(context.cl_context, use, hostbuf=pages)
        self._places: dict[tuple[int, int], cl.Buffer] = {}

    def origin(self, offset: int) -> int:
        """Returns the actual offset for an offset in the memory plan."""
        return spread_offset(offset, self._alignment)

    def place(self, offset: int, size_bytes: int) -> cl.Buffer | None:
        """Returns the subbuffer at an offset; None for 0 bytes."""
        if self.buffer is None or not size_bytes:
            return None
        key = (offset, size_bytes)
        if key not in self._places:
            self._places[key] = self.buffer.get_sub_region(self.origin(offset), size_bytes)
        return self._places[key]
