"""Launches the kernel of a task on an OpenCL device, with the kernel's arguments and work sizes.

If a program's source text contains shapes as constants, the task has one kernel for each shape; otherwise one
kernel serves all shapes.

Some CPU drivers choose a different work group size for nearly every shape, and compile the kernel again for each
work group size, which takes longer than most runs. If the work sizes are known only in a run, this module
therefore chooses one of two work group sizes itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl
from pyopencl import enqueue_nd_range_kernel

from litert.core.errors import LiteRtError
from litert.core.sizes import Expression, Shapes, Size, evaluate
from litert.core.status import Status
from vendor_reference.device.function_memory import FunctionMemory, Slot, find_slot
from vendor_reference.device.kernel_arguments import check_arguments, describe_argument
from vendor_reference.device.module_programs import ModulePrograms
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.device.recent import Recent
from vendor_reference.drivers.driver import driver_of_device
from vendor_reference.executable.executable import ArgumentKind, KernelTask, work_size

_MOST_KERNELS = 64
"""Number of kernel launches that are kept, because their shapes may occur again."""

_GROUPS = (16, 1)
"""Work group sizes for a dimension that is known only in a run.

The first size that divides the dimension is used.
"""

_MOST_ITEMS = 256


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A kernel with its arguments and work sizes, ready to be enqueued.

    Attributes:
      part: Queue of the subdevice that the kernel is limited to; None if the kernel may use the whole device.
      zeros: Operation that zeroes the outputs in which the kernel accumulates; None if there are no such outputs.
    """

    program: DeviceProgram
    kernel: cl.Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    part: cl.CommandQueue | None
    zeros: ZeroFill | None = None

    def run(self, queue: cl.CommandQueue) -> cl.Event:
        """Enqueues the kernel; if it accumulates in its outputs, first fills them with zeros."""
        if self.zeros is not None:
            self.zeros.run(queue)
        if self.part is None:
            return enqueue_nd_range_kernel(queue, self.kernel, self.global_size, self.local_size)
        # The launch follows the commands in the device's queue, which then waits for the launch. This costs 8 us.
        before = cl.enqueue_marker(queue)
        queue.flush()
        event = enqueue_nd_range_kernel(
            self.part, self.kernel, self.global_size, self.local_size, wait_for=[before]
        )
        self.part.flush()
        cl.enqueue_barrier(queue, wait_for=[event])
        return event

    @property
    def variant(self) -> str:
        """Returns a key for the kernel's compiled variant; launches with equal keys need only one compilation."""
        sizes = f"{list(self.local_size)}" if self.local_size else f"{list(self.global_size)} None"
        return f"{self.kernel.function_name} {sizes}"


class ZeroFill:
    """Fills a kernel's accumulated outputs with zeros, even if the kernel then has no work items to run."""

    def __init__(self, task: KernelTask, memory: FunctionMemory) -> None:
        """Finds the buffers to fill with zeros; buffers that callers attach are looked up at each launch."""
        self._attached = memory.attached
        arguments = [task.arguments[index] for index in task.zeroed]
        slots = {slot for argument in arguments if (slot := find_slot(argument))}
        sizes = {slot: memory.output_bytes[slot[1]] for slot in slots}
        self._slots = {slot: size for slot, size in sizes.items() if size}
        places = [memory.value(a) for a in arguments if find_slot(a) is None]
        self._places = [place for place in places if isinstance(place, cl.Buffer)]
        self.is_empty = not (self._slots or self._places)

    def run(self, queue: cl.CommandQueue) -> cl.Event:
        """Enqueues the operations that fill the buffers with zeros; returns the event of the last operation."""
        buffers = [(self._attached[slot], size) for slot, size in self._slots.items()]
        buffers += [(place, place.size) for place in self._places]
        events = [cl.enqueue_fill_buffer(queue, b, b"\0", 0, size) for b, size in buffers if b]
        return events[-1]


class KernelLauncher:
    """Creates and enqueues the launches of a task's kernel."""

    def __init__(
        self,
        task: KernelTask,
        context: OpenClContext,
        memory: FunctionMemory,
        programs: ModulePrograms,
    ) -> None:
        """Stores the arguments; the kernel is created at the first launch."""
        self._task = task
        self._context = context
        self._attached = memory.attached
        self._programs = programs
        self._sizes = programs.sizes(task.program)
        self._program: DeviceProgram | None = None
        self._kernels: Recent[DeviceProgram, cl.Kernel] = Recent(_MOST_KERNELS)
        self._kernel: cl.Kernel | None = None
        slots = {index: find_slot(argument) for index, argument in enumerate(task.arguments)}
        self._slots = [(index, slot) for index, slot in slots.items() if slot is not None]
        self._values = {i: memory.value(task.arguments[i]) for i in slots if slots[i] is None}
        self._part = context.create_part_queue(task.num_shaves)
        self._where = f"kernel '{task.entry}' of op '{task.op_name}'"
        self._has_steady_groups = _needs_steady_groups(task, context)
        zeros = ZeroFill(task, memory)
        self._zeros = None if zeros.is_empty else zeros

    def settle(self, shapes: Shapes) -> KernelLaunch | ZeroFill | None:
        """Returns the kernel launch for the current shapes, or only the zero fill.

        Returns None if there is nothing to run.

        Raises:
          LiteRtError: COMPILATION, if the program does not build; NOT_FOUND, if the program does not contain the
            kernel; INVALID_ARGUMENT, if the kernel's declared arguments or work group size do not fit the task;
            MEMORY_ALLOCATION_FAILURE, if the device has no memory left.
        """
        task = self._task
        if 0 in task.global_size:
            return self._zeros
        global_size, local_size = work_size(task.global_size, task.local_size, shapes, self._where)
        if not prod(global_size):
            return self._zeros
        program = self._programs.find(task.program, shapes)
        if program is not self._program:
            self._program = self._kernel = None  # stays None if creating the kernel fails
            kernel = self._kernels.get(program, lambda: self._create_kernel(program))
            self._program, self._kernel = program, kernel
            for index, slot in self._slots:
                if slot in self._attached:
                    kernel.set_arg(index, self._attached[slot])
        assert self._kernel is not None
        for place, size in enumerate(self._sizes, len(task.arguments)):
            self._kernel.set_arg(place, np.int64(evaluate(size, shapes, self._where)))
        if self._has_steady_groups and not self._names_its_group(self._kernel):
            local_size = choose_group(task.global_size, global_size)
        self._check_group(self._kernel, local_size)
        part = self._part
        if part is not None and prod(global_size) // prod(local_size or ()) <= task.num_shaves:
            part = None  # so few work groups cannot use more shaves anyway
        return KernelLaunch(program, self._kernel, global_size, local_size, part, self._zeros)

    def attach(self, slot: Slot) -> None:
        """Updates the launcher after another buffer has been attached to an input or output of the function."""
        if self._kernel is not None:
            for index, used in self._slots:
                if used == slot:
                    self._kernel.set_arg(index, self._attached[slot])

    def _create_kernel(self, program: DeviceProgram) -> cl.Kernel:
        where = f"{self._where}, {program.text.name}"
        kernel = program.create_kernel(self._task.entry)
        signature = program.built.kernels[self._task.entry]
        check_arguments(signature, self._task, where)
        arguments = self._task.arguments
        local = sum(a.size_bytes for a in arguments if a.kind is ArgumentKind.LOCAL)
        # Before arguments are set, the driver reports only the local memory that the kernel declares itself.
        local += kernel.get_work_group_info(
            cl.kernel_work_group_info.LOCAL_MEM_SIZE, self._context.cl_device
        )
        if local > (most := self._context.cl_device.local_mem_size):
            raise LiteRtError(
                Status.MEMORY_ALLOCATION_FAILURE,
                f"the kernel needs {local} bytes of local memory, but the device has {most}",
                where,
            )
        for index, value in self._values.items():
            try:
                kernel.set_arg(index, value)  # type: ignore[arg-type]  # its stubs forget LocalMemory
            except cl.Error as error:
                argument = arguments[index]
                size = len(argument.scalar) or argument.size_bytes
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"{describe_argument(signature, index)} does not accept a value of {size} bytes: {error}",
                    where,
                ) from error
        return kernel

    def _names_its_group(self, kernel: cl.Kernel) -> bool:
        """Returns whether the source code fixes the work group size (`reqd_work_group_size`)."""
        wanted = cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE
        named: Any = kernel.get_work_group_info(wanted, self._context.cl_device)
        return any(named)

    def _check_group(self, kernel: cl.Kernel, local_size: Sequence[int] | None) -> None:
        if local_size is None:
            return
        items = prod(local_size)
        most = kernel.get_work_group_info(
            cl.kernel_work_group_info.WORK_GROUP_SIZE, self._context.cl_device
        )
        if items > most:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the work group has {items} work items, but the device supports at most {most} for this kernel",
                self._where,
                "Choose smaller local sizes, or omit the local sizes.",
            )


def _needs_steady_groups(task: KernelTask, context: OpenClContext) -> bool:
    """Returns whether the driver needs a fixed work group size: otherwise it would compile for each shape.

    A simulator also needs a fixed size, since it would use work groups of one work item.
    """
    driver = driver_of_device(context.info)
    is_told = any(isinstance(size, Expression) for size in task.global_size)
    on_cpu = bool(context.cl_device.type & cl.device_type.CPU)
    is_slow = is_told and on_cpu and driver.compiles_for_group_sizes
    return task.local_size is None and (is_slow or driver.is_simulator)


def choose_group(sizes: Sequence[Size], global_size: Sequence[int]) -> tuple[int, ...]:
    """Returns the work group size for a run.

    The work group covers the fixed dimensions, up to a limit of work items, and a part of the first dynamic
    dimension. If such a work group has only one work item, it covers a part of the first fixed dimension instead.
    `sizes` is the global work size of the task, and `global_size` is its value in this run.
    """
    group, items = [1] * len(sizes), 1
    for index, size in enumerate(sizes):
        if isinstance(size, int) and items * size <= _MOST_ITEMS:
            group[index] = size
            items *= size
    for index, size in enumerate(sizes):
        if isinstance(size, Expression):
            fitting = (k for k in _GROUPS if global_size[index] % k == 0)
            group[index] = next(k for k in fitting if items * k <= _MOST_ITEMS or k == 1)
            break
    if prod(group) == 1:
        for index, size in enumerate(sizes):
            if isinstance(size, int) and size > 1:
                group[index] = next(k for k in range(_MOST_ITEMS, 0, -1) if size % k == 0)
                break
    return tuple(group)
