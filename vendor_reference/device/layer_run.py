"""Runs consecutive library layers as one launch of the firmware (`firmware/worker.cl`).

If the device's work groups cannot pass results to each other within a launch, each command is a separate launch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyopencl as cl
from pyopencl import enqueue_nd_range_kernel

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes
from litert.core.status import Status
from vendor_reference.device.command_check import CommandCheck
from vendor_reference.device.command_stream import Place, ToldWords, assemble, slots_of
from vendor_reference.device.function_memory import FunctionMemory, Slot, find_slot
from vendor_reference.device.layer_constants import LayerConstants
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_memory import Array
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.device.queue_times import LaunchRow
from vendor_reference.executable.executable import Argument, ArgumentKind, LayerTask
from vendor_reference.firmware.instructions import reporting_instructions
from vendor_reference.firmware.program import (
    ENTRY,
    FAULT_WORDS,
    PLACE_UNIT,
    SCRATCH_REGION,
    FirmwareTuning,
    count_counters,
)

_ARENAS = (ArgumentKind.DDR, ArgumentKind.CMX)
_CONSTANTS = len(_ARENAS)
_FIRST_SLOT = _CONSTANTS + 1
_BEGIN, _COUNT, _FIRST_REGION = 1, 2, 4
"""Names of the firmware kernel's arguments."""

MOST_SLOTS = SCRATCH_REGION - _FIRST_SLOT
"""Largest number of the function's inputs and outputs that one launch can use."""


@dataclass(frozen=True, slots=True)
class LayerProgram:
    """Firmware and memory on the device that all library layers of a function share.

    Attributes:
      tuning: Tuning parameters with which the firmware was built.
    """

    firmware: DeviceProgram
    tuning: FirmwareTuning
    constants: LayerConstants


class LayerRun:
    """Runs consecutive library layers on the device as commands of the firmware.

    Attributes:
      where: Names of the layers, for messages.
      reports: Whether a layer can report an error during a run; `check` then raises the error.
    """

    def __init__(
        self,
        context: OpenClContext,
        tasks: Sequence[LayerTask],
        first: int,
        memory: FunctionMemory,
        program: LayerProgram,
        queue: cl.CommandQueue,
    ) -> None:
        """Assembles the layers' commands, and checks the commands that do not depend on dynamic shapes.

        `first` is the index of the first layer task among the tasks of the function; the checks run in `queue`.
        """
        self._attached = memory.attached
        self._memory = memory
        self._constants = program.constants
        self._regions = {s: _FIRST_SLOT + i for i, s in enumerate(sorted(slots_of(tasks)))}
        self._stream = assemble(tasks, self._find_place)
        names = sorted({f"'{task.op_name}'" for task in tasks})
        self.where = f"layers {', '.join(names)}"
        self._tasks = tasks
        self._first = first
        found = {command.instruction for task in tasks for command in task.commands}
        self.reports = not found.isdisjoint(reporting_instructions())
        self._fault = np.zeros(FAULT_WORDS, np.uint32)
        self._fetched: cl.Event | None = None
        self._num_workers = context.info.compute_units
        shapes = {
            place: shape
            for place in self._stream.places
            if place and (shape := memory.find_shape(place)) is not None
        }
        check = CommandCheck(
            context,
            queue,
            program.firmware,
            program.constants.buffer,
            self._stream,
            shapes.keys(),
            self._find_size,
            self._name_command,
        )
        self._told: ToldWords | None = None
        if self._stream.told or shapes:
            self._told = ToldWords(self._stream, self.where, {*shapes.values()}, check.check)
        else:
            check.check(self._stream.words, lambda _: ())
        self._words: Array | None = None  # words for the last shapes
        self._changed: Array | None = None
        cl_context, flags = context.cl_context, cl.mem_flags
        given = flags.COPY_HOST_PTR
        self._commands = cl.Buffer(cl_context, flags.READ_ONLY | given, hostbuf=self._stream.words)
        count = len(self._stream.offsets)
        self._at_once = count if context.ordering_option is not None else 1
        zeros = np.zeros(count_counters(count, self._num_workers), np.uint32)
        self._counters = cl.Buffer(cl_context, flags.READ_WRITE | given, hostbuf=zeros)
        arenas = [memory.arena(kind) for kind in _ARENAS]
        slots = [None] * MOST_SLOTS
        scratch = memory.scratch(4 * program.tuning.scratch * self._num_workers)
        regions = [*arenas, program.constants.buffer, *slots, scratch]
        self._kernel = program.firmware.create_kernel(ENTRY)
        self._chosen = (0, count)
        self._kernel.set_args(
            self._commands, *map(np.uint32, self._chosen), self._counters, *regions
        )

    def attach(self, slot: Slot) -> None:
        """Updates the layers after another buffer has been attached to an input or output of the function."""
        if slot in self._regions:
            index = _FIRST_REGION + self._regions[slot]
            self._kernel.set_arg(index, self._attached[slot])

    def settle(self, shapes: Shapes) -> LayerRun:
        """Sets the shapes for the following runs; raises INVALID_ARGUMENT if a size is out of range."""
        if self._told is not None:
            words = self._told.find(shapes)
            if words is not self._words:
                self._words = self._changed = words
        return self

    def run(self, queue: cl.CommandQueue) -> LaunchRow:
        """Enqueues all layers, and returns the events of the first and the last launch."""
        return self._run(queue, 0, len(self._stream.offsets))

    def run_each(self, queue: cl.CommandQueue) -> Iterator[tuple[int, LaunchRow]]:
        """Enqueues each layer as a separate launch, and yields the index of the layer's task."""
        end = 0
        for task, count in enumerate(self._stream.counts, self._first):
            end += count
            yield task, self._run(queue, end - count, end)

    def _run(self, queue: cl.CommandQueue, begin: int, end: int) -> LaunchRow:
        """Enqueues the commands from `begin` to `end`."""
        if self._changed is not None:  # after earlier runs, which read the old commands
            cl.enqueue_copy(queue, self._commands, self._changed, is_blocking=False)
            self._changed = None
        events = []
        for first in range(begin, end, self._at_once):
            self._choose(first, min(end - first, self._at_once))
            events.append(enqueue_nd_range_kernel(queue, self._kernel, (self._num_workers,), (1,)))
        if self.reports:
            self._fetched = cl.enqueue_copy(queue, self._fault, self._counters, is_blocking=False)
        return LaunchRow(events[0], events[-1])

    def check(self, queue: cl.CommandQueue) -> None:
        """Raises INVALID_ARGUMENT if a layer reported an error in the finished run."""
        if not self._fault[0]:
            return
        _, command, low, high, size = (int(word) for word in self._fault[:5])
        self._fault[:] = 0
        cl.enqueue_copy(queue, self._counters, self._fault, is_blocking=True)
        name = self._name_command(bisect_right(self._stream.offsets, command) - 1)
        index = (high << 32 | low) - (high >> 31 << 64)
        allowed = f"the allowed indices are 0 to {size - 1}"
        if size < 2:
            allowed = "the only allowed index is 0" if size else "the op's operand is empty"
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{name} got index {index}, but {allowed}",
            hint="Pass only indices that exist in the op's operand. The op's results are incomplete.",
        )

    def _find_size(self, argument: Argument, shapes: Shapes) -> int:
        if argument.kind is ArgumentKind.CONSTANT:
            return self._constants.sizes[argument.index]
        return self._memory.size_bytes(argument, shapes)

    def _name_command(self, number: int) -> str:
        task = self._tasks[bisect_right([*accumulate(self._stream.counts)], number)]
        written = f" that writes tensor '{task.tensor}'" if task.tensor else ""
        return f"op {task.op_name}{written}"

    def _choose(self, first: int, count: int) -> None:
        """Sets the range of commands that the next launch runs."""
        if (first, count) != self._chosen:
            self._kernel.set_arg(_BEGIN, np.uint32(self._stream.offsets[first]))
            self._kernel.set_arg(_COUNT, np.uint32(count))
            self._chosen = (first, count)

    def _find_place(self, argument: Argument) -> Place:
        slot = find_slot(argument)
        if slot is not None:
            return self._regions[slot], 0
        if argument.kind is ArgumentKind.CONSTANT:
            return _CONSTANTS, self._constants.offsets[argument.index] // PLACE_UNIT
        origin = self._memory.origin(argument)
        return _ARENAS.index(argument.kind), origin // PLACE_UNIT
