"""Enqueues the tasks of a function on an OpenCL device, all at once if all shapes are known before the run.

If kernels determine shapes during the run, the tasks are enqueued in stages. Between two stages, the host reads
the shapes that kernels have written, since these shapes decide how the next tasks are launched.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import pyopencl as cl

from dispatch.api import Receive
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.device.command_stream import find_layer_runs
from vendor_reference.device.cpu_launcher import CpuLauncher
from vendor_reference.device.function_memory import FunctionMemory, Slot
from vendor_reference.device.kernel_launcher import KernelLaunch, KernelLauncher, ZeroFill
from vendor_reference.device.layer_run import MOST_SLOTS, LayerProgram, LayerRun
from vendor_reference.device.module_programs import ModulePrograms
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.device.queue_times import Ended
from vendor_reference.device.run_shapes import NOT_WRITTEN, RunShapes
from vendor_reference.executable.executable import (
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
    LayerTask,
    ShapeKind,
    ShapeValue,
)
from vendor_reference.executable.shape_use import BEFORE_ALL, find_needed, find_written

Launcher: TypeAlias = KernelLauncher | CpuLauncher | LayerRun
Launch: TypeAlias = KernelLaunch | ZeroFill | CpuLauncher | LayerRun


class TaskSequence:
    """Tasks of one function, with the memory that the tasks use.

    Attributes:
      function: Function of the executable.
      shapes: Shapes of the next run.
      launches: Launches of the last run, or of the next run if its launches are known already. Keys are task
        indices; consecutive library layers share the index of the first layer.
      is_staged: Whether shapes that kernels write decide how later tasks are launched, so that the host must wait
        during a run.
      waits: Whether the host waits during a run for shapes, CPU layers or errors of layers.
    """

    def __init__(
        self,
        context: OpenClContext,
        function: Function,
        programs: ModulePrograms,
        constants: Mapping[int, BufferMemory],
        libraries: Mapping[str, CpuLayerLibrary],
        layers: LayerProgram | None,
    ) -> None:
        """Allocates the function's memory; if the function has no dynamic shapes, also prepares the launches.

        `constants` are the constants of kernels and CPU layers, by index; `libraries` are the libraries of CPU
        layers, by SHA-256; `layers` runs the library layers, if there are any.
        """
        self.function = function
        self.shapes = RunShapes(function, self._ask)
        self.launches: dict[int, Launch] = {}
        self.is_staged = any(s.kind is ShapeKind.WRITTEN for s in function.shapes)
        self._memory = FunctionMemory(context, function, constants)
        queue = context.create_queue()
        self._launchers: dict[int, Launcher] = {}
        for index, task in enumerate(function.tasks):
            if isinstance(task, CpuTask):
                library = libraries[task.asset.sha256]
                shapes = function.shapes
                self._launchers[index] = CpuLauncher(task, shapes, library, queue, self._memory)
            elif isinstance(task, KernelTask):
                self._launchers[index] = KernelLauncher(task, context, self._memory, programs)
        runs = find_layer_runs(function.tasks, MOST_SLOTS)
        for first, tasks in runs.items():
            assert layers is not None
            self._launchers[first] = LayerRun(context, tasks, first, self._memory, layers, queue)
        self._launchers = dict(sorted(self._launchers.items()))
        launchers = self._launchers.values()
        self._reporting = [run for run in launchers if isinstance(run, LayerRun) and run.reports]
        has_cpu_layers = any(isinstance(task, CpuTask) for task in function.tasks)
        self.waits = self.is_staged or has_cpu_layers or bool(self._reporting)
        self._context = context
        self._running: cl.Buffer | None = None  # contains the number of the current launch
        self._written: Mapping[int, Sequence[int]] = {}
        self._needed: Mapping[int, Sequence[int]] = {}
        if self.is_staged:
            self._find_shape_use(programs, runs)
        self._in_memory = function.find_used(ArgumentKind.SHAPE)
        self._is_settled = not function.shapes
        if self._is_settled:
            self._settle_all()

    def attach(self, slot: Slot, buffer: cl.Buffer | None) -> None:
        """Attaches memory to an input or output for the following runs."""
        self._memory.attached[slot] = buffer
        for launcher in self._launchers.values():
            launcher.attach(slot)

    def input_type(self, index: int) -> RankedTensorType:
        """Returns the tensor type of an input with the current shape."""
        largest = self.function.inputs[index]
        shape = self.shapes.input_shape(index)
        return largest if shape is None else RankedTensorType.of(largest.element_type, shape)

    def set_input_shape(self, index: int, shape: Sequence[int]) -> None:
        """Sets the shape of an input for the following runs."""
        if self.shapes.set_input(index, shape):
            self._is_settled = False

    def get_ready(self, queue: cl.CommandQueue) -> None:
        """Prepares the launches of a run after a change of shapes; raises the launchers' errors."""
        if not self._is_settled:
            self.shapes.forget()
            self._compute(queue, BEFORE_ALL)
            if not self.is_staged:
                self._settle_all()
            self._is_settled = True

    def watch(self, running: memoryview[int]) -> Sequence[str]:
        """After this call, each run writes the number of its current launch, counted from 1, to `running`.

        Returns the names of the launches.
        """
        context = self._context
        if len(self._launchers) > 1 and context.in_place:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
            self._running = cl.Buffer(context.cl_context, flags, hostbuf=running)
        self._numbers = {index: number for number, index in enumerate(self._launchers, 1)}
        tasks = self.function.tasks
        return [
            launcher.where
            if isinstance(launcher, LayerRun)
            else f"kernel '{tasks[index].entry}' of op '{tasks[index].op_name}'"
            for index, launcher in self._launchers.items()
        ]

    def enqueue(
        self,
        queue: cl.CommandQueue,
        events: dict[int, Ended],
        is_each: bool = False,
        after: Callable[[int], None] | None = None,
    ) -> None:
        """Enqueues all tasks of a run.

        Args:
          queue: In-order queue for the run.
          events: Dictionary that receives the OpenCL event of each launch, by the index of the launch's first
            task.
          is_each: Whether each library layer is a separate launch.
          after: Function that is called after each launch, with the index of the launch's task.

        Raises:
          LiteRtError: RUNTIME_FAILURE, if a kernel has written a shape that is not valid; or an error of
            `get_ready`.
        """
        if self.is_staged:
            self._enqueue_in_stages(queue, events, is_each, after)
            return
        for index, launch in self.launches.items():
            self._note_running(queue, index)
            _launch(queue, index, launch, events, is_each, after)

    def check(self, queue: cl.CommandQueue) -> None:
        """If a layer has reported an error in the run that has ended, raises this error."""
        for run in self._reporting:
            run.check(queue)

    def show(self, queue: cl.CommandQueue, receive: Receive, task: int) -> None:
        """Waits for a task, then passes to `receive` the tensors that the task has written."""
        for tap in self.function.taps:
            if tap.task == task:
                receive(tap.name, tap.tensor_type, memoryview(self._memory.read(queue, tap)))

    def tell_shapes(self, queue: cl.CommandQueue) -> None:
        """Writes the dynamic output shapes to attached memory; called after the queue has finished a run."""
        for output in self.function.dynamic_outputs:
            place = self._memory.attached[ArgumentKind.OUTPUT, output.shape_output]
            assert place is not None
            _send(queue, place, self.shapes[output.shape])

    def keep_variants(self) -> None:
        """Caches the kernel variants that the driver has compiled for the work sizes of the last run."""
        variants: dict[DeviceProgram, set[str]] = {}
        for launch in self.launches.values():
            if isinstance(launch, KernelLaunch):
                variants.setdefault(launch.program, set()).add(launch.variant)
        for program, found in variants.items():
            program.keep_variants(found)

    def close(self) -> None:
        """Releases all memory and kernels of the tasks."""
        self.launches = {}
        self._launchers = {}
        self._memory.close()

    def _find_shape_use(
        self, programs: ModulePrograms, runs: Mapping[int, Sequence[LayerTask]]
    ) -> None:
        """Finds the shapes that launches write, and the shapes that launches need first."""
        function = self.function
        self._written = {i: find_written(i, function.shapes) for i in self._launchers}
        self._needed = {
            first: [
                shape
                for task in runs.get(first, [function.tasks[first]])
                for shape in find_needed(first, task, programs.holes(task), function.shapes)
            ]
            for first in self._launchers
        }

    def _settle_all(self) -> None:
        self.launches = {}
        for index in self._launchers:
            self._settle(index)

    def _settle(self, index: int) -> Launch | None:
        """Returns the launch of a task for the current shapes; None if there is nothing to launch."""
        launch = self._launchers[index].settle(self.shapes.__getitem__)
        if launch is not None:
            self.launches[index] = launch
        return launch

    def _enqueue_in_stages(
        self,
        queue: cl.CommandQueue,
        events: dict[int, Ended],
        is_each: bool,
        after: Callable[[int], None] | None,
    ) -> None:
        self.launches = {}
        if events or not self._is_settled:
            raise AssertionError("the launches of the run were not prepared")
        self.shapes.forget()
        self._compute(queue, BEFORE_ALL)
        for index in self._launchers:
            if not all(map(self.shapes.is_known, self._needed[index])):
                self._read_shapes(queue, index)
            for written in self._written[index]:
                rank = len(self.function.shapes[written].pattern)
                _send(queue, self._memory.shape_place(written), NOT_WRITTEN * rank)
            launch = self._settle(index)
            if launch is None or isinstance(launch, ZeroFill):
                self._check_writes_nothing(index)
            self._note_running(queue, index)
            _launch(queue, index, launch, events, is_each, after)
        self._read_shapes(queue, len(self.function.tasks))

    def _note_running(self, queue: cl.CommandQueue, index: int) -> None:
        """Enqueues a write of the next launch's number, if a caller watches the tasks."""
        if self._running is None:
            return
        number = struct.pack("=I", self._numbers[index])
        cl.enqueue_fill_buffer(queue, self._running, number, 0, len(number))

    def _read_shapes(self, queue: cl.CommandQueue, end: int) -> None:
        """Waits for the tasks before `end`, and reads the shapes that they have written."""
        before = (written for task, written in self._written.items() if task < end)
        for index in (i for written in before for i in written):
            if not self.shapes.is_known(index):
                rank = len(self.function.shapes[index].pattern)
                numbers = bytearray(4 * rank)
                cl.enqueue_copy(queue, numbers, self._memory.shape_place(index), is_blocking=True)
                self.shapes.set_written(index, struct.unpack(f"={rank}I", numbers))
        self._compute(queue, end - 1)

    def _compute(self, queue: cl.CommandQueue, task: int) -> None:
        """Computes the shapes that are known after a task, and copies the shapes that kernels read to memory."""
        computed = self.shapes.compute(task)
        if task == BEFORE_ALL:
            shapes = enumerate(self.function.shapes)
            computed += [i for i, shape in shapes if shape.kind is ShapeKind.INPUT]
        for index in self._in_memory.intersection(computed):
            _send(queue, self._memory.shape_place(index), self.shapes[index])

    def _check_writes_nothing(self, index: int) -> None:
        if self._written[index]:
            task = self.function.tasks[index]
            shape = self.function.shapes[self._written[index][0]]
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                f"the kernel must write the shape of tensor '{shape.name}', but has no work items, because a "
                "global size is 0",
                f"kernel '{task.entry}' of op '{task.op_name}'",
                "Make each global size at least 1, for example X+1, and let the kernel check its index.",
            )

    def _ask(self, shape: ShapeValue) -> Sequence[int]:
        """Returns the shape that a CPU layer's library computes for an output."""
        launcher = self._launchers[shape.index]
        assert isinstance(launcher, CpuLauncher)
        return launcher.ask_shape(shape.output, self.shapes.__getitem__)


def _launch(
    queue: cl.CommandQueue,
    index: int,
    launch: Launch | None,
    events: dict[int, Ended],
    is_each: bool,
    after: Callable[[int], None] | None,
) -> None:
    ended: Iterable[tuple[int, Ended]] = ()
    if is_each and isinstance(launch, LayerRun):
        ended = launch.run_each(queue)
    elif launch is not None:
        ended = [(index, launch.run(queue))]
    for task, event in ended:
        events[task] = event
        if after is not None:
            after(task)


def _send(queue: cl.CommandQueue, place: cl.Buffer, numbers: Sequence[int]) -> None:
    """Enqueues a copy of numbers to memory."""
    data = struct.pack(f"={len(numbers)}I", *numbers)
    cl.enqueue_copy(queue, place, data, is_blocking=True)
