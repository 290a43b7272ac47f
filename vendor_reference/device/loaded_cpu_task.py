"""One CPU layer of a function on an OpenCL device: its kernel with its buffers.

Where a run tells shapes, there is one kernel for all of them if it takes any batch; else there is one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from vendor_reference.cpu_layer.kernel import Kernel
from vendor_reference.cpu_layer.library import ConfigurationRefusedError, CpuLayerLibrary
from vendor_reference.device.cpu_launch import CpuLaunch, create_kernel
from vendor_reference.device.device import Programs
from vendor_reference.device.loaded_task import Port, Value
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.device.recent import Recent
from vendor_reference.executable.cpu_op import CpuOp, CpuOperand
from vendor_reference.executable.executable import Argument, ArgumentKind, CpuPlace, CpuTask
from vendor_reference.executable.shape_value import ShapeKind, ShapeValue, format_shape

MOST_KERNELS = 16
"""For shapes that come again; what is older is ended, and made again."""


class LoadedCpuTask:
    """A CPU layer's task on the device; as `LoadedTask` is for a kernel's."""

    def __init__(
        self,
        task: CpuTask,
        values: Sequence[ShapeValue],
        library: CpuLayerLibrary,
        queue: cl.CommandQueue,
        value: Callable[[Argument], Value],
        attached: Mapping[Port, cl.Buffer | None],
    ) -> None:
        """Makes its kernel, but for one whose shapes a run must tell first.

        Args:
          task: of the executable.
          values: the function's shapes that a run tells.
          library: that has the layer.
          queue: of the device, to read constants with.
          value: finds what an argument is, but for inputs and outputs of the function.
          attached: what inputs and outputs are; it changes, and `attach` says so.

        Raises:
          LiteRtError: with what the library says; UNSUPPORTED, if it has changed its mind.
        """
        self.task = task
        self._values = values
        self._library = library
        self._queue = queue
        self._attached = attached
        self._ports: list[tuple[int, Port]] = []
        self._buffers: list[cl.Buffer | None] = []
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
            self._buffers.append(buffer)
        self._launch = CpuLaunch(task, self._buffers)
        self._kernels: Recent[CpuOp, Kernel] = Recent(MOST_KERNELS)
        self._largest: Kernel | None = None
        if not task.shapes:
            self._launch.set_kernel(self._create_kernel(task.op))
        elif task.config.dynamic_batch:
            self._largest = self._create_kernel(self._largest_op())
            self._launch.set_kernel(self._largest)

    def settle(self, programs: Programs[DeviceProgram], shapes: Shapes) -> CpuLaunch:
        """The launch for the shapes as they are.

        Raises:
          LiteRtError: with what the library says of a shape that it has no kernel for yet.
        """
        if self.task.shapes:
            op = self._op(shapes)
            if self._largest is not None:
                self._largest.set_shapes(op, self.task.config)
            else:
                self._launch.set_kernel(self._kernels.get(op, lambda: self._create_kernel(op)))
        return self._launch

    def ask_shape(self, output: int, shapes: Shapes) -> Sequence[int]:
        """The shape of an output, by the library, for those of the inputs as they are.

        Raises:
          LiteRtError: with what the library says; UNSUPPORTED, if it does not say shapes any more.
        """
        inputs = _operands(self.task.op.inputs, self.task.inputs, shapes)
        said = self._ask(replace(self.task.op, inputs=tuple(inputs)))
        if said is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{self._library} does not say shapes, as it did when the model was compiled",
                self._where,
                "Compile the model again.",
            )
        return said[output]

    def attach(self, port: Port) -> None:
        """Says that an input or output is another."""
        for index, used in self._ports:
            if used == port:
                self._launch.set_buffer(index, self._attached[port])

    @property
    def _where(self) -> str:
        return f"{self.task.asset.file_name}, op '{self.task.op.name}'"

    def _op(self, shapes: Shapes) -> CpuOp:
        op = self.task.op
        inputs = _operands(op.inputs, self.task.inputs, shapes)
        outputs = _operands(op.outputs, self.task.outputs, shapes)
        return replace(op, inputs=tuple(inputs), outputs=tuple(o for o in outputs if o is not None))

    def _largest_op(self) -> CpuOp:
        """The op with the largest inputs, and the outputs that its library says for them."""
        op = self.task.op
        is_asked = any(
            p.shape is not None and self._values[p.shape].kind is ShapeKind.ASKED
            for p in self.task.outputs
        )
        said = self._ask(op) if is_asked else None
        if said is None:
            return op
        return replace(
            op, outputs=tuple(_reshaped(o, s) for o, s in zip(op.outputs, said, strict=True))
        )

    def _ask(self, op: CpuOp) -> Sequence[tuple[int, ...]] | None:
        """The shapes of all outputs; the library is told what the model knows of them."""
        known = [
            operand.tensor_type.shape if place.shape is None else self._values[place.shape].pattern
            for operand, place in zip(op.outputs, self.task.outputs, strict=True)
        ]
        return self._library.output_shapes(op, known)

    def _create_kernel(self, op: CpuOp) -> Kernel:
        """A kernel for the op with these shapes."""
        where = self._where
        if self.task.shapes:
            given = (format_shape(o.tensor_type.shape) for o in op.inputs if o is not None)
            where += f", inputs of {', '.join(given)}"
        try:
            return create_kernel(self._library, self.task, op, self._buffers, self._queue)
        except ConfigurationRefusedError as error:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{self._library} does not take the configuration that it took when the model was compiled"
                + (f": {error}" if str(error) else ""),
                where,
                "Compile the model again.",
            ) from None
        except LiteRtError as error:
            raise LiteRtError(error.status, error.what, where, error.hint) from error


def _operands(
    operands: Sequence[CpuOperand | None], places: Sequence[CpuPlace | None], shapes: Shapes
) -> Sequence[CpuOperand | None]:
    """Operands with their shapes as they are."""
    return [
        operand
        if operand is None or place is None or place.shape is None
        else _reshaped(operand, shapes(place.shape))
        for operand, place in zip(operands, places, strict=True)
    ]


def _reshaped(operand: CpuOperand, shape: Sequence[int]) -> CpuOperand:
    own = operand.tensor_type
    return replace(operand, tensor_type=RankedTensorType.of(own.element_type, tuple(shape)))
