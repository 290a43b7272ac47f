"""Tasks become launches: kernels of their own, with all arguments set but inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.kernel_arguments import check_arguments, describe_argument
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.executable.executable import Argument, ArgumentKind, Function, KernelTask
from vendor_reference.executable.format import ALIGNMENT
from vendor_reference.executable.work_size import work_size

Launch: TypeAlias = "tuple[cl.Kernel, tuple[int, ...], tuple[int, ...] | None]"
"""A kernel, its global and its local size."""

Use: TypeAlias = "tuple[cl.Kernel, int]"
"""A kernel and the index of one of its arguments."""


@dataclass(frozen=True, slots=True)
class LoadedTasks:
    """A function's tasks, ready to be enqueued.

    Attributes:
      tasks: those that have something to do.
      launches: one for each of them.
      input_uses: where kernels get each input.
      output_uses: likewise.
      programs: by the function's index.
      kept: what kernels use, and do not keep themselves.
    """

    function: Function
    tasks: Sequence[KernelTask]
    launches: Sequence[Launch]
    input_uses: Sequence[Sequence[Use]]
    output_uses: Sequence[Sequence[Use]]
    programs: Mapping[int, DeviceProgram]
    kept: Sequence[object]

    def keep_variants(self) -> None:
        """Keeps what the driver has compiled for these work sizes; called after a run."""
        for index, program in self.programs.items():
            tasks = [task for task in self.tasks if task.program == index]
            program.keep_variants(
                frozenset(f"{t.entry} {t.global_size} {t.local_size}" for t in tasks)
            )


def load_tasks(
    context: cl.Context,
    device: cl.Device,
    function: Function,
    programs: Mapping[int, DeviceProgram],
    constants: Mapping[int, BufferMemory],
) -> LoadedTasks:
    """Makes a function's tasks ready.

    Args:
      context: of the device.
      device: that they will run on.
      function: of an executable.
      programs: those that its tasks name, by their index.
      constants: likewise.

    Raises:
      LiteRtError: NOT_FOUND, INVALID_ARGUMENT, MEMORY_ALLOCATION_FAILURE.
    """
    loader = _TaskLoader(context, device, function, programs, constants)
    tasks = [task for task in function.tasks if 0 not in task.global_size]
    launches = [loader.load(task) for task in tasks]
    return LoadedTasks(
        function,
        tasks,
        launches,
        loader.input_uses,
        loader.output_uses,
        programs,
        (constants, loader.arenas),
    )


class _TaskLoader:
    """Loads the tasks of one function."""

    def __init__(
        self,
        context: cl.Context,
        device: cl.Device,
        function: Function,
        programs: Mapping[int, DeviceProgram],
        constants: Mapping[int, BufferMemory],
    ) -> None:
        self._device = device
        self._programs = programs
        self._constants = constants
        self.input_uses: list[list[Use]] = [[] for _ in function.inputs]
        self.output_uses: list[list[Use]] = [[] for _ in function.outputs]
        self.arenas = {
            ArgumentKind.DDR: _Arena(context, device, function.ddr_size),
            ArgumentKind.CMX: _Arena(context, device, function.cmx_size),
        }

    def load(self, task: KernelTask) -> Launch:
        program = self._programs[task.program]
        where = f"kernel '{task.entry}' of op '{task.op_name}', {program.text.name}"
        kernel = program.create_kernel(task.entry)
        check_arguments(kernel, task, where)
        global_size, local_size = work_size(task.global_size, task.local_size, _no_shape, where)
        self._check_sizes(kernel, task, local_size, where)
        for index, argument in enumerate(task.arguments):
            if argument.kind is ArgumentKind.INPUT:
                self.input_uses[argument.index].append((kernel, index))
            elif argument.kind is ArgumentKind.OUTPUT:
                self.output_uses[argument.index].append((kernel, index))
            else:
                self._set(kernel, index, argument, where)
        return kernel, global_size, local_size

    def _set(self, kernel: cl.Kernel, index: int, argument: Argument, where: str) -> None:
        value: bytes | cl.Buffer | cl.LocalMemory | None = argument.scalar
        if argument.kind is ArgumentKind.CONSTANT:
            value = self._constants[argument.index].buffer
        elif argument.kind in self.arenas:
            value = self.arenas[argument.kind].place(argument.offset, argument.size_bytes)
        elif argument.kind is ArgumentKind.LOCAL:
            value = cl.LocalMemory(argument.size_bytes)
        try:
            kernel.set_arg(index, value)  # type: ignore[arg-type]  # its stubs forget LocalMemory
        except cl.Error as error:
            size = len(argument.scalar) or argument.size_bytes
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{describe_argument(kernel, index)} does not take {size} bytes: {error}",
                where,
            ) from error

    def _check_sizes(
        self, kernel: cl.Kernel, task: KernelTask, local_size: tuple[int, ...] | None, where: str
    ) -> None:
        local = sum(a.size_bytes for a in task.arguments if a.kind is ArgumentKind.LOCAL)
        if local > self._device.local_mem_size:
            raise LiteRtError(
                Status.MEMORY_ALLOCATION_FAILURE,
                f"{local} bytes of local memory, the device has {self._device.local_mem_size}",
                where,
            )
        items = prod(local_size or (1,))
        most = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, self._device)
        if items > most:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{items} work items in a group, the device takes {most}",
                where,
                "Choose smaller local sizes, or none.",
            )


def _no_shape(index: int) -> Sequence[int]:
    raise AssertionError(f"shape {index} of a function without shapes")


def spread_offset(offset: int, alignment: int) -> int:
    """Where a place in DDR lies on a device that wants places aligned.

    Args:
      offset: a multiple of `ALIGNMENT`.
      alignment: in bytes, a power of two; beyond `ALIGNMENT` all places are spread, and keep their distances.
    """
    return offset * max(1, alignment // ALIGNMENT)


class _Arena:
    """A function's part of DDR or CMX: one buffer, and the places in it."""

    def __init__(self, context: cl.Context, device: cl.Device, size_bytes: int) -> None:
        self._alignment = device.mem_base_addr_align // 8
        self._buffer: cl.Buffer | None = None
        if size_bytes:
            size = spread_offset(size_bytes, self._alignment)
            self._buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
        self._places: dict[tuple[int, int], cl.Buffer] = {}

    def place(self, offset: int, size_bytes: int) -> cl.Buffer | None:
        """What lies at an offset; None for no bytes."""
        if self._buffer is None or not size_bytes:
            return None
        key = (offset, size_bytes)
        if key not in self._places:
            origin = spread_offset(offset, self._alignment)
            self._places[key] = self._buffer.get_sub_region(origin, size_bytes)
        return self._places[key]
