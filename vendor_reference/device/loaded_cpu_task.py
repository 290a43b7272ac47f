"""One CPU layer of a function on an OpenCL device: its kernel with its buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes
from litert.core.status import Status
from vendor_reference.cpu_layer.library import ConfigurationRefusedError, CpuLayerLibrary
from vendor_reference.device.cpu_launch import CpuLaunch, create_kernel
from vendor_reference.device.device import Programs
from vendor_reference.device.loaded_task import Port, Value
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.executable.executable import Argument, ArgumentKind, CpuTask


class LoadedCpuTask:
    """A CPU layer's task on the device; as `LoadedTask` is for a kernel's."""

    def __init__(
        self,
        task: CpuTask,
        library: CpuLayerLibrary,
        queue: cl.CommandQueue,
        value: Callable[[Argument], Value],
        attached: Mapping[Port, cl.Buffer | None],
    ) -> None:
        """Makes its kernel.

        Args:
          task: of the executable.
          library: that has the layer.
          queue: of the device, to read constants with.
          value: finds what an argument is, but for inputs and outputs of the function.
          attached: what inputs and outputs are; it changes, and `attach` says so.

        Raises:
          LiteRtError: with what the library says; UNSUPPORTED, if it has changed its mind.
        """
        self.task = task
        self._attached = attached
        self._ports: list[tuple[int, Port]] = []
        buffers: list[cl.Buffer | None] = []
        for index, place in enumerate((*task.inputs, *task.outputs)):
            buffer: cl.Buffer | None = None
            if place is not None and place.argument.kind in (
                ArgumentKind.INPUT,
                ArgumentKind.OUTPUT,
            ):
                self._ports.append((index, (place.argument.kind, place.argument.index)))
            elif place is not None:
                found = value(place.argument)
                assert found is None or isinstance(found, cl.Buffer)
                buffer = found
            buffers.append(buffer)
        try:
            kernel = create_kernel(library, task, buffers, queue)
        except ConfigurationRefusedError as error:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{library} does not take the configuration that it took when the model was compiled"
                + (f": {error}" if str(error) else ""),
                f"{task.asset.file_name}, op '{task.op.name}'",
                "Compile the model again.",
            ) from None
        self._launch = CpuLaunch(kernel, task, buffers)

    def settle(self, programs: Programs[DeviceProgram], shapes: Shapes) -> CpuLaunch:
        """The launch, whatever the shapes: those of a CPU layer are all known."""
        return self._launch

    def attach(self, port: Port) -> None:
        """Says that an input or output is another."""
        for index, used in self._ports:
            if used == port:
                self._launch.set_buffer(index, self._attached[port])
