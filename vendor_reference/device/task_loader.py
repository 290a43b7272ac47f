"""A function's tasks on an OpenCL device: what they run on, and their launches for the shapes of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyopencl as cl

from vendor_reference.device.loaded_task import FindProgram, Launch, LoadedTask, Port, Value
from vendor_reference.device.opencl_arena import Arena
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.run_shapes import RunShapes
from vendor_reference.executable.executable import Argument, ArgumentKind, Function


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
        function: Function,
        find_program: FindProgram,
        constants: Mapping[int, BufferMemory],
    ) -> None:
        """Allocates what the function needs; tasks that no shape decides about get their kernels.

        Args:
          context: of the device.
          device: that they will run on.
          function: of an executable.
          find_program: gives the programs that its tasks name.
          constants: those that its tasks name, by their index.

        Raises:
          LiteRtError: NOT_FOUND, INVALID_ARGUMENT, MEMORY_ALLOCATION_FAILURE.
        """
        self.function = function
        self.shapes = RunShapes(function)
        self._find_program = find_program
        self._constants = constants
        self._arenas = {
            ArgumentKind.DDR: Arena(context, device, function.ddr_size),
            ArgumentKind.CMX: Arena(context, device, function.cmx_size),
        }
        self._attached: dict[Port, cl.Buffer | None] = {}
        self.tasks: Sequence[LoadedTask] = [
            LoadedTask(task, device, self._values(task.arguments), self._attached)
            for task in function.tasks
        ]
        self._kept: dict[int, object] = {}
        if not function.shapes:
            self.launches = self.settle_all()

    def attach(self, kind: ArgumentKind, index: int, buffer: cl.Buffer | None) -> None:
        """Sets what runs read or write as an input or output."""
        self._attached[kind, index] = buffer
        for task in self.tasks:
            task.attach((kind, index))

    def settle(self, index: int) -> Launch | None:
        """The launch of a task for the shapes as they are, which it needs; None where it has nothing to do."""
        return self.tasks[index].settle(self._find_program, self.shapes.__getitem__)

    def shape_place(self, index: int) -> cl.Buffer:
        """Where a shape's numbers lie."""
        shape = self.function.shapes[index]
        place = self._arenas[ArgumentKind.DDR].place(shape.offset, shape.size_bytes)
        assert place is not None
        return place

    def keep_variants(self, launched: Sequence[int]) -> None:
        """Keeps what the driver has compiled for the work sizes of tasks; called after their run."""

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
