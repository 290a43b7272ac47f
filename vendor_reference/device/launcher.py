"""Enqueues the tasks of a function: all at once where a run can begin with all shapes, else in stages.

Between stages the shapes are read that kernels have written: those decide how the next tasks are launched.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyopencl as cl
from pyopencl import enqueue_nd_range_kernel

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.cpu_launch import CpuLaunch, HostTime
from vendor_reference.device.loaded_tasks import Launch, LoadedTasks
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.run_shapes import NOT_WRITTEN
from vendor_reference.device.shaves import PartLaunch
from vendor_reference.executable.executable import ArgumentKind, CpuTask
from vendor_reference.executable.shape_use import BEFORE_ALL, find_needed, find_written
from vendor_reference.executable.shape_value import ShapeKind


class Launcher:
    """Launches one function's tasks.

    Attributes:
      launches: of the last run, or of the next where they are known.
      launched: the tasks that these are of, by index.
      is_staged: whether kernels decide about launches, so that a run waits in between.
      waits: whether a run waits, for that or for CPU layers.
    """

    def __init__(self, loaded: LoadedTasks) -> None:
        """Gets ready; a function without shapes has its launches at once.

        Raises:
          LiteRtError: as `LoadedTask.settle`.
        """
        function = loaded.function
        self.launches: list[Launch] = []
        self.launched: list[int] = []
        self.is_staged = any(s.kind is ShapeKind.WRITTEN for s in function.shapes)
        self.waits = self.is_staged or any(isinstance(t, CpuTask) for t in function.tasks)
        self._loaded = loaded
        self._is_settled = False
        self._written = [
            find_written(i, function.shapes) if self.is_staged else ()
            for i in range(len(function.tasks))
        ]
        self._needed = [
            find_needed(i, task, loaded.holes(i), function.shapes) if self.is_staged else ()
            for i, task in enumerate(function.tasks)
        ]
        self._in_memory = {
            argument.index
            for task in function.tasks
            for argument in task.arguments
            if argument.kind is ArgumentKind.SHAPE
        }
        if not function.shapes:
            self._settle_all()
            self._is_settled = True

    def set_input_shape(self, index: int, shape: Sequence[int]) -> None:
        """Sets the shape of an input for the runs from now on.

        Raises:
          LiteRtError: INVALID_ARGUMENT.
        """
        if self._loaded.shapes.set_input(index, shape):
            self._is_settled = False

    def get_ready(self, queue: cl.CommandQueue) -> None:
        """Finds what a run can begin with, after a change of shapes.

        Raises:
          LiteRtError: as `LoadedTask.settle`; INVALID_ARGUMENT, for a formula that has no value for these shapes.
        """
        if not self._is_settled:
            self._loaded.shapes.forget()
            self._compute(queue, BEFORE_ALL)
            if not self.is_staged:
                self._settle_all()
            self._is_settled = True

    def enqueue(self, queue: cl.CommandQueue, events: list[cl.Event | HostTime]) -> None:
        """Enqueues a run; `events` gets one for each launch.

        Raises:
          LiteRtError: RUNTIME_FAILURE, for a shape that a kernel has written and that cannot be; as `get_ready`.
        """
        if self.is_staged:
            self._enqueue_in_stages(queue, events)
            return
        for launch in self.launches:
            events.append(_launch(queue, launch))

    def tell_shapes(self, queue: cl.CommandQueue, outputs: Sequence[BufferMemory | None]) -> None:
        """Writes the outputs' shapes where the caller reads them, once the queue is done."""
        for output in self._loaded.function.dynamic_outputs:
            memory = outputs[output.shape_output]
            assert memory is not None and memory.buffer is not None
            numbers = self._loaded.shapes[output.shape]
            _send(queue, memory.buffer, numbers)

    def close(self) -> None:
        """Lets go of kernels."""
        self.launches, self.launched = [], []

    def _settle_all(self) -> None:
        self.launches, self.launched = [], []
        for index in range(len(self._loaded.tasks)):
            launch = self._loaded.settle(index)
            if launch is not None:
                self.launches.append(launch)
                self.launched.append(index)

    def _enqueue_in_stages(self, queue: cl.CommandQueue, events: list[cl.Event | HostTime]) -> None:
        shapes = self._loaded.shapes
        self.launches, self.launched = [], []
        if events or not self._is_settled:
            raise AssertionError("a run that was not made ready")
        shapes.forget()
        self._compute(queue, BEFORE_ALL)
        for index in range(len(self._loaded.tasks)):
            if not all(map(shapes.is_known, self._needed[index])):
                self._read_shapes(queue, index)
            for written in self._written[index]:
                rank = len(self._loaded.function.shapes[written].pattern)
                _send(queue, self._loaded.shape_place(written), NOT_WRITTEN * rank)
            launch = self._loaded.settle(index)
            if launch is None:
                self._check_writes_nothing(index)
                continue
            self.launches.append(launch)
            self.launched.append(index)
            events.append(_launch(queue, launch))
        self._read_shapes(queue, len(self._loaded.tasks))

    def _read_shapes(self, queue: cl.CommandQueue, end: int) -> None:
        """Waits for the tasks before `end`, and reads the shapes that they have written."""
        shapes = self._loaded.shapes
        for index in (i for task in range(end) for i in self._written[task]):
            if not shapes.is_known(index):
                rank = len(self._loaded.function.shapes[index].pattern)
                numbers = bytearray(4 * rank)
                cl.enqueue_copy(queue, numbers, self._loaded.shape_place(index), is_blocking=True)
                shapes.set_written(index, struct.unpack(f"={rank}I", numbers))
        self._compute(queue, end - 1)

    def _compute(self, queue: cl.CommandQueue, task: int) -> None:
        """Computes the shapes that are known once a task has ended, and puts into memory what kernels read."""
        computed = self._loaded.shapes.compute(task)
        if task == BEFORE_ALL:
            kinds = (ShapeKind.INPUT,)
            shapes = self._loaded.function.shapes
            computed += [i for i, shape in enumerate(shapes) if shape.kind in kinds]
        for index in self._in_memory.intersection(computed):
            _send(queue, self._loaded.shape_place(index), self._loaded.shapes[index])

    def _check_writes_nothing(self, index: int) -> None:
        if self._written[index]:
            task = self._loaded.function.tasks[index]
            shape = self._loaded.function.shapes[self._written[index][0]]
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                f"no work item runs to write the shape of '{shape.name}': a global size is 0",
                f"kernel '{task.entry}' of op '{task.op_name}'",
                "Make its work sizes at least 1, as in X+1, and let the kernel check its index.",
            )


def _launch(queue: cl.CommandQueue, launch: Launch) -> cl.Event | HostTime:
    if isinstance(launch, (CpuLaunch, PartLaunch)):
        return launch.run(queue)
    kernel, global_size, local_size = launch
    return enqueue_nd_range_kernel(queue, kernel, global_size, local_size)


def _send(queue: cl.CommandQueue, place: cl.Buffer, numbers: Sequence[int]) -> None:
    """Puts numbers into memory before what is enqueued next."""
    data = struct.pack(f"={len(numbers)}I", *numbers)
    cl.enqueue_copy(queue, place, data, is_blocking=True)
