"""Runs a CPU layer between OpenCL kernels: the layer's buffers are mapped into host memory while the queue waits.

For shapes that are known only in a run, the library creates a CPU kernel for each shape. If the CPU kernel accepts
any batch size, one kernel serves all shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes
from litert.core.status import Status
from vendor_reference.cpu_layer.choice import alike_configurations
from vendor_reference.cpu_layer.library import ConfigurationRefusedError, CpuLayerLibrary, Kernel
from vendor_reference.cpu_layer.marshal import TensorPlace
from vendor_reference.device.function_memory import FunctionMemory, Slot, find_slot
from vendor_reference.device.queue_times import HostTime
from vendor_reference.device.recent import Recent
from vendor_reference.executable.cpu_op import CpuOp, CpuOperand
from vendor_reference.executable.executable import (
    ArgumentKind,
    CpuPlace,
    CpuTask,
    ShapeKind,
    ShapeValue,
    format_shape,
)

MOST_KERNELS = 16
"""Number of CPU kernels that are kept, because their shapes may occur again; older kernels are closed."""

_READ = cl.map_flags.READ
_WRITE_ALL = cl.map_flags.WRITE_INVALIDATE_REGION
_CHANGE = cl.map_flags.READ | cl.map_flags.WRITE


class CpuLauncher:
    """Launches the CPU layer of a task; only one thread at a time may use it."""

    def __init__(
        self,
        task: CpuTask,
        values: Sequence[ShapeValue],
        library: CpuLayerLibrary,
        queue: cl.CommandQueue,
        memory: FunctionMemory,
    ) -> None:
        """Creates the CPU kernel, unless its shapes are known only in a run.

        `values` are the shapes of the function; the device uses `queue` to read constants.

        Raises:
          LiteRtError: The status and message that the CPU layer's library returns; UNSUPPORTED, if the library no
            longer accepts the layer's configuration.
        """
        self._task = task
        self._values = values
        self._library = library
        self._queue = queue
        self._attached = memory.attached
        self._slots: list[tuple[int, Slot]] = []
        self._buffers: list[cl.Buffer | None] = []
        for index, place in enumerate(task.places):
            buffer: cl.Buffer | None = None
            if place is not None and (slot := find_slot(place.argument)):
                self._slots.append((index, slot))
            elif place is not None:
                found = memory.value(place.argument)
                assert found is None or isinstance(found, cl.Buffer)
                buffer = found
            self._buffers.append(buffer)
        self._kernel: Kernel | None = None
        self._kernels: Recent[CpuOp, Kernel] = Recent(MOST_KERNELS)
        self._has_any_batch = bool(task.shapes) and task.config.dynamic_batch
        if not task.shapes:
            self._kernel = self._create_kernel(task.op)
        elif self._has_any_batch:
            self._kernel = self._create_kernel(self._largest_op())

    def settle(self, shapes: Shapes) -> CpuLauncher:
        """Selects or creates the CPU kernel for the current shapes; raises the error that the library returns."""
        if self._task.shapes:
            op = self._op(shapes)
            if self._has_any_batch:
                assert self._kernel is not None
                self._kernel.set_shapes(op, self._task.config)
            else:
                self._kernel = self._kernels.get(op, lambda: self._create_kernel(op))
        return self

    def run(self, queue: cl.CommandQueue) -> HostTime:
        """Waits until the queue has finished its earlier work, then runs the CPU layer."""
        with ExitStack() as mapped:
            addresses = {
                buffer: mapped.enter_context(_map_buffer(queue, buffer, flags))
                for buffer, flags in self._map_flags().items()
            }
            queue.finish()  # one wait for all buffers, since each wait wakes the device's threads
            found = [addresses[b] if b is not None else 0 for b in self._buffers]
            num_inputs = len(self._task.inputs)
            assert self._kernel is not None
            start = perf_counter_ns()
            self._kernel.execute(found[:num_inputs], found[num_inputs:])
            return HostTime(start, perf_counter_ns())

    def ask_shape(self, output: int, shapes: Shapes) -> Sequence[int]:
        """Returns the shape that the library computes for an output from the current input shapes.

        Raises:
          LiteRtError: The status and message that the CPU layer's library returns; UNSUPPORTED, if the library no
            longer computes output shapes.
        """
        inputs = _operands(self._task.op.inputs, self._task.inputs, shapes)
        said = self._ask(replace(self._task.op, inputs=tuple(inputs)))
        if said is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{self._library} computed output shapes when the model was compiled, but no longer does",
                self._where,
                "Compile the model again.",
            )
        return said[output]

    def attach(self, slot: Slot) -> None:
        """Updates the launcher after another buffer has been attached to an input or output of the function."""
        for index, used in self._slots:
            if used == slot:
                self._buffers[index] = self._attached[slot]

    @property
    def _where(self) -> str:
        return f"{self._task.asset.file_name}, {self._task.op.place}"

    def _op(self, shapes: Shapes) -> CpuOp:
        op = self._task.op
        inputs = _operands(op.inputs, self._task.inputs, shapes)
        outputs = _operands(op.outputs, self._task.outputs, shapes)
        return replace(op, inputs=tuple(inputs), outputs=tuple(o for o in outputs if o is not None))

    def _largest_op(self) -> CpuOp:
        """Returns the op with the largest input shapes, and the output shapes that the library computes."""
        op = self._task.op
        is_asked = any(
            p.shape is not None and self._values[p.shape].kind is ShapeKind.ASKED
            for p in self._task.outputs
        )
        said = self._ask(op) if is_asked else None
        return op if said is None else op.with_output_shapes(said)

    def _ask(self, op: CpuOp) -> Sequence[tuple[int, ...]] | None:
        """Returns the shapes of all outputs; the library gets the shapes in the model."""
        known = [
            operand.tensor_type.shape if place.shape is None else self._values[place.shape].pattern
            for operand, place in zip(op.outputs, self._task.outputs, strict=True)
        ]
        return self._library.output_shapes(op, known)

    def _create_kernel(self, op: CpuOp) -> Kernel:
        """Creates a CPU kernel for the op with these shapes."""
        where = self._where
        if self._task.shapes:
            given = (format_shape(o.tensor_type.shape) for o in op.inputs if o is not None)
            where += f", inputs of {', '.join(given)}"
        try:
            return self._init_kernel(op)
        except ConfigurationRefusedError as error:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{self._library} no longer accepts the configuration that it accepted when the model was compiled"
                + (f": {error}" if str(error) else ""),
                where,
                "Compile the model again.",
            ) from None
        except LiteRtError as error:
            raise LiteRtError(error.status, error.what, where, error.hint) from error

    def _init_kernel(self, op: CpuOp) -> Kernel:
        """Creates a CPU kernel, which can read the values of its constants."""
        task = self._task
        with ExitStack() as mapped:
            inputs: list[TensorPlace | None] = []
            for place, buffer in zip(task.inputs, self._buffers, strict=False):
                if place is None:
                    inputs.append(None)
                    continue
                data = 0
                if buffer is not None and place.argument.kind is ArgumentKind.CONSTANT:
                    data = mapped.enter_context(_map_buffer(self._queue, buffer, _READ))
                inputs.append(TensorPlace(place.strides, place.offset, data))
            outputs = [TensorPlace(place.strides, place.offset) for place in task.outputs]
            self._queue.finish()
            return self._init_alike(op, inputs, outputs)

    def _init_alike(
        self, op: CpuOp, inputs: Sequence[TensorPlace | None], outputs: Sequence[TensorPlace]
    ) -> Kernel:
        """Creates the CPU kernel; for other shapes than the compiler's, another implementation may be used."""
        task, library = self._task, self._library
        try:
            return library.init(op, task.implementation, task.config, inputs, outputs)
        except ConfigurationRefusedError:
            if op == task.op:
                raise
            for implementation, config in alike_configurations(library, op, task.config):
                if implementation != task.implementation:
                    with suppress(ConfigurationRefusedError):
                        return library.init(op, implementation, config, inputs, outputs)
            raise

    def _map_flags(self) -> Mapping[cl.Buffer, Any]:
        """Returns the map flags of each buffer.

        A buffer is mapped once, even if an output shares an input's memory.
        """
        flags: dict[cl.Buffer, Any] = {}
        parts = zip(self._buffers, self._task.places, strict=True)
        for index, (buffer, place) in enumerate(parts):
            if buffer is None:
                continue
            if index < len(self._task.inputs):
                flags[buffer] = _READ
            else:
                is_whole = buffer not in flags and (place is None or not place.strides)
                flags[buffer] = _WRITE_ALL if is_whole else _CHANGE
        return flags


def _operands(
    operands: Sequence[CpuOperand | None], places: Sequence[CpuPlace | None], shapes: Shapes
) -> Sequence[CpuOperand | None]:
    """Returns the operands with their current shapes."""
    return [
        operand
        if operand is None or place is None or place.shape is None
        else operand.with_shape(shapes(place.shape))
        for operand, place in zip(operands, places, strict=True)
    ]


@contextmanager
def _map_buffer(queue: cl.CommandQueue, buffer: cl.Buffer, flags: Any) -> Iterator[int]:
    """Maps a buffer for the host after the queue has finished, and yields the buffer's address."""
    array, _ = cl.enqueue_map_buffer(
        queue, buffer, flags, 0, (buffer.size,), np.dtype(np.uint8), is_blocking=False
    )
    try:
        yield array.ctypes.data
    finally:
        array.base.release(queue)
