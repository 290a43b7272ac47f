"""Runs consecutive library layers as one launch of the firmware (`firmware/worker.cl`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyopencl as cl
from pyopencl import enqueue_nd_range_kernel

from litert.core.sizes import Shapes
from vendor_reference.device.command_stream import Place, assemble, slots_of
from vendor_reference.device.function_memory import FunctionMemory, Slot, find_slot
from vendor_reference.device.layer_constants import LayerConstants
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_memory import Array
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.executable.executable import Argument, ArgumentKind, LayerTask
from vendor_reference.firmware.program import ENTRY, PLACE_UNIT, SCRATCH_REGION, FirmwareTuning

_ARENAS = (ArgumentKind.DDR, ArgumentKind.CMX)
_CONSTANTS = len(_ARENAS)
_FIRST_SLOT = _CONSTANTS + 1
_BEGIN, _COUNT, _FIRST_REGION = 1, 2, 4
"""Arguments of the kernel."""

MOST_SLOTS = SCRATCH_REGION - _FIRST_SLOT
"""Inputs and outputs of the function that one launch can name."""


@dataclass(frozen=True, slots=True)
class LayerProgram:
    """What the layers of a function share on the device.

    Attributes:
      tuning: that the firmware was built with.
    """

    firmware: DeviceProgram
    tuning: FirmwareTuning
    constants: LayerConstants


class LayerRun:
    """Consecutive library layers on the device, with their commands."""

    def __init__(
        self,
        context: OpenClContext,
        tasks: Sequence[LayerTask],
        first: int,
        memory: FunctionMemory,
        program: LayerProgram,
    ) -> None:
        """Assembles their commands; `first` is the index of the first task in the function."""
        self._attached = memory.attached
        self._memory = memory
        self._constants = program.constants
        self._regions = {s: _FIRST_SLOT + i for i, s in enumerate(sorted(slots_of(tasks)))}
        self._stream = assemble(tasks, self._find_place)
        names = sorted({f"'{task.op_name}'" for task in tasks})
        self._where = f"layers {', '.join(names)}"
        self._tasks = range(first, first + len(tasks))
        self._num_workers = context.info.compute_units
        self._changed: Array | None = None
        cl_context, flags = context.cl_context, cl.mem_flags
        given = flags.COPY_HOST_PTR
        self._commands = cl.Buffer(cl_context, flags.READ_ONLY | given, hostbuf=self._stream.words)
        count = sum(self._stream.counts)
        zeros = np.zeros(2 * count + 1, np.uint32)
        self._counters = cl.Buffer(cl_context, flags.READ_WRITE | given, hostbuf=zeros)
        arenas = [memory.arena(kind) for kind in _ARENAS]
        slots = [None] * MOST_SLOTS
        scratch = memory.scratch(4 * program.tuning.scratch * self._num_workers)
        regions = [*arenas, program.constants.buffer, *slots, scratch]
        self._kernel = program.firmware.create_kernel(ENTRY)
        self._kernel.set_args(
            self._commands, np.uint32(0), np.uint32(count), self._counters, *regions
        )

    def attach(self, slot: Slot) -> None:
        """Says that an input or output is another."""
        if slot in self._regions:
            index = _FIRST_REGION + self._regions[slot]
            self._kernel.set_arg(index, self._attached[slot])

    def settle(self, shapes: Shapes) -> LayerRun:
        """Sets the shapes of the runs from now on; INVALID_ARGUMENT, for a size that cannot be."""
        if self._stream.told:
            self._stream.tell(shapes, self._where)
            self._changed = self._stream.words.copy()
        return self

    def run(self, queue: cl.CommandQueue) -> cl.Event:
        """Enqueues all layers."""
        if self._changed is not None:  # behind the runs before it, which read the old ones
            cl.enqueue_copy(queue, self._commands, self._changed, is_blocking=False)
            self._changed = None
        return enqueue_nd_range_kernel(queue, self._kernel, (self._num_workers,), (1,))

    def run_each(self, queue: cl.CommandQueue) -> Iterator[tuple[int, cl.Event]]:
        """Enqueues each layer as a launch of its own, with its task's index."""
        try:
            stream = self._stream
            for task, *part in zip(self._tasks, stream.offsets, stream.counts, strict=True):
                self._choose(*part)
                yield task, self.run(queue)
        finally:
            self._choose(0, sum(stream.counts))

    def _choose(self, begin: int, count: int) -> None:
        self._kernel.set_arg(_BEGIN, np.uint32(begin))
        self._kernel.set_arg(_COUNT, np.uint32(count))

    def _find_place(self, argument: Argument) -> Place:
        slot = find_slot(argument)
        if slot is not None:
            return self._regions[slot], 0
        if argument.kind is ArgumentKind.CONSTANT:
            return _CONSTANTS, self._constants.offsets[argument.index] // PLACE_UNIT
        origin = self._memory.origin(argument)
        return _ARENAS.index(argument.kind), origin // PLACE_UNIT
