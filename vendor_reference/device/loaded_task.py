"""One task of a function on an OpenCL device: its kernel with its arguments, and how it is launched.

A task whose text has shapes as constants has a kernel for each of them; any other keeps the one it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes
from litert.core.status import Status
from vendor_reference.device.device import Programs
from vendor_reference.device.kernel_arguments import check_arguments, describe_argument
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.device.recent import Recent
from vendor_reference.device.steady_groups import choose_group, needs_steady_groups
from vendor_reference.executable.executable import ArgumentKind, KernelTask
from vendor_reference.executable.work_size import work_size

Value: TypeAlias = "bytes | cl.Buffer | cl.LocalMemory | None"
"""What is bound to a kernel argument."""

KernelLaunch: TypeAlias = "tuple[cl.Kernel, tuple[int, ...], tuple[int, ...] | None]"
"""A kernel, its global and its local size."""

Port: TypeAlias = tuple[ArgumentKind, int]
"""INPUT or OUTPUT, and its index."""

_MOST_KERNELS = 64
"""For shapes that come again; what is older is made again."""


class LoadedTask:
    """A task on the device.

    Attributes:
      task: of the executable.
      program: that was last asked for; None before.
    """

    def __init__(
        self,
        task: KernelTask,
        device: cl.Device,
        values: Mapping[int, Value],
        attached: Mapping[Port, cl.Buffer | None],
    ) -> None:
        """Makes no kernel yet.

        Args:
          task: of the executable.
          device: that it will run on.
          values: what its arguments are, by number, but for inputs and outputs of the function.
          attached: what inputs and outputs are; it changes, and `attach` says so.
        """
        self.task = task
        self.program: DeviceProgram | None = None
        self._device = device
        self._values = values
        self._attached = attached
        self._kernels: Recent[DeviceProgram, cl.Kernel] = Recent(_MOST_KERNELS)
        self._kernel: cl.Kernel | None = None
        self._ports: list[tuple[int, Port]] = [
            (index, (argument.kind, argument.index))
            for index, argument in enumerate(task.arguments)
            if argument.kind in (ArgumentKind.INPUT, ArgumentKind.OUTPUT)
        ]
        self._where = f"kernel '{task.entry}' of op '{task.op_name}'"
        self._has_steady_groups = needs_steady_groups(task, device)

    def settle(self, programs: Programs[DeviceProgram], shapes: Shapes) -> KernelLaunch | None:
        """The launch for the shapes as they are; None where there is nothing to do.

        Raises:
          LiteRtError: COMPILATION, NOT_FOUND, if the program has not the kernel; INVALID_ARGUMENT, if it takes
            other arguments or sizes; MEMORY_ALLOCATION_FAILURE.
        """
        if 0 in self.task.global_size:
            return None
        global_size, local_size = work_size(
            self.task.global_size, self.task.local_size, shapes, self._where
        )
        if not prod(global_size):
            return None
        program = programs.find(self.task.program, shapes)
        if program is not self.program:
            self.program = self._kernel = None  # also where there is none that fits
            kernel = self._kernels.get(program, lambda: self._create_kernel(program))
            self.program, self._kernel = program, kernel
            for index, port in self._ports:
                if port in self._attached:
                    kernel.set_arg(index, self._attached[port])
        assert self._kernel is not None
        if self._has_steady_groups and not self._names_its_group(self._kernel):
            local_size = choose_group(self.task.global_size, global_size)
        self._check_group(self._kernel, local_size)
        return self._kernel, global_size, local_size

    def attach(self, port: Port) -> None:
        """Says that an input or output is another."""
        if self._kernel is not None:
            for index, used in self._ports:
                if used == port:
                    self._kernel.set_arg(index, self._attached[port])

    def _create_kernel(self, program: DeviceProgram) -> cl.Kernel:
        where = f"{self._where}, {program.text.name}"
        kernel = program.create_kernel(self.task.entry)
        signature = program.built.kernels[self.task.entry]
        check_arguments(signature, self.task, where)
        self._check_local_memory(where)
        for index, value in self._values.items():
            try:
                kernel.set_arg(index, value)  # type: ignore[arg-type]  # its stubs forget LocalMemory
            except cl.Error as error:
                argument = self.task.arguments[index]
                size = len(argument.scalar) or argument.size_bytes
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"{describe_argument(signature, index)} does not take {size} bytes: {error}",
                    where,
                ) from error
        return kernel

    def _check_local_memory(self, where: str) -> None:
        arguments = self.task.arguments
        local = sum(a.size_bytes for a in arguments if a.kind is ArgumentKind.LOCAL)
        if local > self._device.local_mem_size:
            raise LiteRtError(
                Status.MEMORY_ALLOCATION_FAILURE,
                f"{local} bytes of local memory, the device has {self._device.local_mem_size}",
                where,
            )

    def _names_its_group(self, kernel: cl.Kernel) -> bool:
        """Whether the source does (`reqd_work_group_size`)."""
        wanted = cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE
        named: Any = kernel.get_work_group_info(wanted, self._device)
        return any(named)

    def _check_group(self, kernel: cl.Kernel, local_size: Sequence[int] | None) -> None:
        if local_size is None:
            return
        items = prod(local_size)
        most = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, self._device)
        if items > most:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{items} work items in a group, the device takes {most}",
                self._where,
                "Choose smaller local sizes, or none.",
            )
