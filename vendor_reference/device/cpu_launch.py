"""A CPU layer between OpenCL kernels: its buffers are mapped, and the queue waits, while its function runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyopencl as cl

from vendor_reference.cpu_layer.choice import alike_configurations
from vendor_reference.cpu_layer.kernel import Kernel, TensorPlace
from vendor_reference.cpu_layer.library import ConfigurationRefusedError, CpuLayerLibrary
from vendor_reference.executable.cpu_op import CpuOp
from vendor_reference.executable.executable import ArgumentKind, CpuTask

_READ = cl.map_flags.READ
_WRITE_ALL = cl.map_flags.WRITE_INVALIDATE_REGION
_CHANGE = cl.map_flags.READ | cl.map_flags.WRITE


@dataclass(frozen=True, slots=True)
class HostTime:
    """When a function ran, as OpenCL's events have it: nanoseconds."""

    start: int
    end: int

    @property
    def profile(self) -> HostTime:
        """Its times."""
        return self


class CpuLaunch:
    """A kernel of a CPU layer, with its buffers; for one thread at a time."""

    def __init__(self, task: CpuTask, buffers: Sequence[cl.Buffer | None]) -> None:
        """Takes the buffers of inputs and outputs; None for no bytes, or one still to be set."""
        self._kernel: Kernel | None = None
        self._num_inputs = len(task.inputs)
        self._buffers = list(buffers)
        places = (*task.inputs, *task.outputs)
        self._is_view = [place is not None and bool(place.strides) for place in places]

    def set_kernel(self, kernel: Kernel) -> None:
        """Takes another kernel, for the shapes of the next run."""
        self._kernel = kernel

    def set_buffer(self, index: int, buffer: cl.Buffer | None) -> None:
        """Sets the buffer of an input, or of an output, which come behind them."""
        self._buffers[index] = buffer

    def run(self, queue: cl.CommandQueue) -> HostTime:
        """Runs it, once the queue has done what was enqueued before.

        Raises:
          LiteRtError: with what the library says.
          cl.Error: if a buffer cannot be mapped, or what was enqueued before failed.
        """
        with ExitStack() as mapped:
            addresses = {
                buffer: mapped.enter_context(map_buffer(queue, buffer, flags))
                for buffer, flags in self._flags().items()
            }
            queue.finish()  # once for all: each wait wakes the device's threads
            found = [addresses[b] if b is not None else 0 for b in self._buffers]
            assert self._kernel is not None
            start = perf_counter_ns()
            self._kernel.execute(found[: self._num_inputs], found[self._num_inputs :])
            return HostTime(start, perf_counter_ns())

    def _flags(self) -> Mapping[cl.Buffer, Any]:
        """How each buffer is mapped: once, also where an output lies in place of an input."""
        flags: dict[cl.Buffer, Any] = {}
        for index, buffer in enumerate(self._buffers):
            if buffer is None:
                continue
            if index < self._num_inputs:
                flags[buffer] = _READ
            else:
                is_alone = buffer not in flags and not self._is_view[index]
                flags[buffer] = _WRITE_ALL if is_alone else _CHANGE
        return flags


def create_kernel(
    library: CpuLayerLibrary,
    task: CpuTask,
    op: CpuOp,
    buffers: Sequence[cl.Buffer | None],
    queue: cl.CommandQueue,
) -> Kernel:
    """Makes the kernel of a task, which sees the values of its constants.

    Args:
      library: that has it.
      task: of an executable.
      op: the task's, with the shapes that the kernel is for.
      buffers: of its inputs, then its outputs; here those of constants count.
      queue: to map them with.

    Raises:
      LiteRtError: with what the library says.
      ConfigurationRefusedError: if it has another mind than when the model was compiled.
    """
    with ExitStack() as mapped:
        inputs: list[TensorPlace | None] = []
        for place, buffer in zip(task.inputs, buffers, strict=False):
            if place is None:
                inputs.append(None)
                continue
            data = 0
            if buffer is not None and place.argument.kind is ArgumentKind.CONSTANT:
                data = mapped.enter_context(map_buffer(queue, buffer, _READ))
            inputs.append(TensorPlace(place.strides, place.offset, data))
        outputs = [TensorPlace(place.strides, place.offset) for place in task.outputs]
        queue.finish()
        return _init(library, task, op, inputs, outputs)


def _init(
    library: CpuLayerLibrary,
    task: CpuTask,
    op: CpuOp,
    inputs: Sequence[TensorPlace | None],
    outputs: Sequence[TensorPlace],
) -> Kernel:
    """The kernel; for another shape than the compiler's it may be of another implementation."""
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


@contextmanager
def map_buffer(queue: cl.CommandQueue, buffer: cl.Buffer, flags: Any) -> Iterator[int]:
    """A buffer as the host sees it, for a while, once the queue is done.

    Yields:
      Its address.
    """
    array, _ = cl.enqueue_map_buffer(
        queue, buffer, flags, 0, (buffer.size,), np.dtype(np.uint8), is_blocking=False
    )
    try:
        yield array.ctypes.data
    finally:
        array.base.release(queue)
