"""A function's tasks on an OpenCL device: what they run on, and their launches for the shapes of a run."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyopencl as cl

from litert.core.sizes import Size
from litert.core.tensor_type import RankedTensorType
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.device.cpu_launch import CpuLaunch
from vendor_reference.device.device import Programs
from vendor_reference.device.loaded_cpu_task import LoadedCpuTask
from vendor_reference.device.loaded_task import KernelLaunch, LoadedTask, Port, Value
from vendor_reference.device.opencl_arena import Arena
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.device.run_shapes import RunShapes
from vendor_reference.device.shaves import PartLaunch, Shaves, most_groups
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
)
from vendor_reference.executable.shape_value import ShapeValue

Launch: TypeAlias = "KernelLaunch | PartLaunch | CpuLaunch"

_PROFILING = cl.command_queue_properties.PROFILING_ENABLE


class LoadedTasks:
    """A function's tasks, their memory, and what is attached to them.

    Attributes:
      function: of the executable.
      shapes: as the next run has them.
      tasks: the function's, in order.
    """

    def __init__(
        self,
        context: cl.Context,
        device: cl.Device,
        shaves: Shaves,
        function: Function,
        programs: Programs[DeviceProgram],
        constants: Mapping[int, BufferMemory],
        libraries: Mapping[str, CpuLayerLibrary],
    ) -> None:
        """Allocates what the function needs.

        Args:
          context: of the device.
          device: that they will run on.
          shaves: its parts, which are in the context too.
          function: of an executable.
          programs: those that its tasks name.
          constants: those that its tasks name, by their index.
          libraries: of CPU layers that its tasks name, by SHA-256.

        Raises:
          LiteRtError: NOT_FOUND, INVALID_ARGUMENT, MEMORY_ALLOCATION_FAILURE.
        """
        self.function = function
        self.shapes = RunShapes(function, self._ask)
        self._programs = programs
        self._constants = constants
        self._arenas = {
            ArgumentKind.DDR: Arena(context, device, function.ddr_size),
            ArgumentKind.CMX: Arena(context, device, function.cmx_size),
        }
        self._attached: dict[Port, cl.Buffer | None] = {}
        queue = cl.CommandQueue(context, device)
        self.tasks: Sequence[LoadedTask | LoadedCpuTask] = [
            LoadedCpuTask(
                task,
                function.shapes,
                libraries[task.asset.sha256],
                queue,
                self._value,
                self._attached,
            )
            if isinstance(task, CpuTask)
            else LoadedTask(task, device, self._values(task.arguments), self._attached)
            for task in function.tasks
        ]
        self._part_queues = {
            index: cl.CommandQueue(context, part, _PROFILING)
            for index, task in enumerate(function.tasks)
            if isinstance(task, KernelTask) and (part := shaves.find_part(task.num_shaves))
        }
        self._kept: weakref.WeakKeyDictionary[DeviceProgram, set[str]] = weakref.WeakKeyDictionary()

    def attach(self, kind: ArgumentKind, index: int, buffer: cl.Buffer | None) -> None:
        """Sets what runs read or write as an input or output."""
        self._attached[kind, index] = buffer
        for task in self.tasks:
            task.attach((kind, index))

    def settle(self, index: int) -> Launch | None:
        """The launch of a task for the shapes as they are, which it needs; None where it has nothing to do."""
        launch = self.tasks[index].settle(self._programs, self.shapes.__getitem__)
        task, part = self.function.tasks[index], self._part_queues.get(index)
        if part is None or not isinstance(launch, tuple) or not isinstance(task, KernelTask):
            return launch
        # With no more groups than shaves no more of them are busy, wherever it runs.
        return PartLaunch(launch, part) if most_groups(launch) > task.num_shaves else launch

    def input_type(self, index: int) -> RankedTensorType:
        """The type of an input for the shapes as they are."""
        largest = self.function.inputs[index]
        shape = self.shapes.input_shape(index)
        return largest if shape is None else RankedTensorType.of(largest.element_type, shape)

    def holes(self, index: int) -> Sequence[Size]:
        """The sizes that the text of a task's program has holes for."""
        task = self.function.tasks[index]
        return () if isinstance(task, CpuTask) else self._programs.holes(task.program)

    def shape_place(self, index: int) -> cl.Buffer:
        """Where a shape's numbers lie."""
        shape = self.function.shapes[index]
        place = self._arenas[ArgumentKind.DDR].place(shape.offset, shape.size_bytes)
        assert place is not None
        return place

    def keep_variants(self, launched: Sequence[int], launches: Sequence[Launch]) -> None:
        """Keeps what the driver has compiled for these work sizes; called after a run.

        Args:
          launched: the tasks of the run.
          launches: theirs.
        """
        variants: dict[DeviceProgram, list[str]] = {}
        for index, launch in zip(launched, launches, strict=True):
            task = self.tasks[index]
            if isinstance(task, LoadedCpuTask) or isinstance(launch, CpuLaunch):
                continue
            _, global_size, local_size = launch.launch if isinstance(launch, PartLaunch) else launch
            assert task.program is not None
            kept = self._kept.setdefault(task.program, set())
            sizes = f"{list(local_size)}" if local_size else f"{list(global_size)} None"
            shown = f"{task.task.entry} {sizes}"
            if shown not in kept:
                kept.add(shown)
                variants.setdefault(task.program, []).append(shown)
        for program, found in variants.items():
            program.keep_variants(frozenset(found))

    def close(self) -> None:
        """Lets go of all that the tasks use."""
        self.tasks = ()
        self._attached.clear()
        self._arenas.clear()
        self._constants = {}
        self._part_queues = {}

    def _ask(self, shape: ShapeValue) -> Sequence[int]:
        """What a CPU layer says of the shape of one of its outputs."""
        task = self.tasks[shape.index]
        assert isinstance(task, LoadedCpuTask)
        return task.ask_shape(shape.output, self.shapes.__getitem__)

    def _values(self, arguments: Sequence[Argument]) -> Mapping[int, Value]:
        ports = (ArgumentKind.INPUT, ArgumentKind.OUTPUT)
        return {i: self._value(a) for i, a in enumerate(arguments) if a.kind not in ports}

    def _value(self, argument: Argument) -> Value:
        if argument.kind is ArgumentKind.CONSTANT:
            return self._constants[argument.index].buffer
        if argument.kind is ArgumentKind.SHAPE:
            return self.shape_place(argument.index)
        if argument.kind is ArgumentKind.LOCAL:
            return cl.LocalMemory(argument.size_bytes)
        if argument.kind is ArgumentKind.SCALAR:
            return argument.scalar
        return self._arenas[argument.kind].place(argument.offset, argument.size_bytes)
