"""A function on an OpenCL device: its runs, on the memory that is attached to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from time import perf_counter

import pyopencl as cl

from dispatch.event import Event
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from vendor_reference.device.cpu_launch import HostTime
from vendor_reference.device.device import Measurement
from vendor_reference.device.home_process import HomeProcess
from vendor_reference.device.launcher import Launcher
from vendor_reference.device.loaded_tasks import LoadedTasks
from vendor_reference.device.opencl_errors import opencl_error
from vendor_reference.device.opencl_event import OpenClEvent
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.stopwatch import Stopwatch
from vendor_reference.executable.executable import ArgumentKind


class OpenClFunction:
    """One function, loaded; for one thread at a time."""

    def __init__(
        self,
        context: cl.Context,
        device: cl.Device,
        loaded: LoadedTasks,
        home_process: HomeProcess,
    ) -> None:
        self._context = context
        self._device = device
        self._loaded = loaded
        self._home_process = home_process
        self._launcher = Launcher(loaded)
        self._inputs: list[BufferMemory | None] = [None] * len(loaded.function.inputs)
        self._outputs: list[BufferMemory | None] = [None] * len(loaded.function.outputs)
        self._sent: Sequence[BufferMemory] = ()
        self._fetched: Sequence[BufferMemory] = ()
        self._is_ready = self._has_started = self._is_kept = False
        self._stopwatch: Stopwatch | None = None
        self._tells_shapes = bool(loaded.function.dynamic_outputs)
        self._queue = _create_queue(context, device)

    def attach_input(self, index: int, memory: BufferMemory) -> None:
        self._check_size(f"input {index}", self._loaded.input_type(index), memory)
        self._inputs[index] = memory
        self._is_ready = False
        self._loaded.attach(ArgumentKind.INPUT, index, memory.buffer)

    def attach_output(self, index: int, memory: BufferMemory) -> None:
        self._check_size(f"output {index}", self._loaded.function.outputs[index], memory)
        self._outputs[index] = memory
        self._is_ready = False
        self._loaded.attach(ArgumentKind.OUTPUT, index, memory.buffer)

    def detach_input(self, index: int, memory: BufferMemory) -> None:
        self._detach(self._inputs, index, memory)

    def detach_output(self, index: int, memory: BufferMemory) -> None:
        self._detach(self._outputs, index, memory)

    def detach_all(self) -> None:
        with suppress(cl.Error):  # of a run that nobody waited for
            self._queue.finish()
        self._inputs = [None] * len(self._inputs)
        self._outputs = [None] * len(self._outputs)
        self._sent = self._fetched = ()
        self._is_ready = False
        if self._stopwatch is not None:  # the next caller measures on its own account
            self._stopwatch = None
            self._renew_queue()

    def has_dynamic_input(self, index: int) -> bool:
        return self._loaded.shapes.input_shape(index) is not None

    def set_input_shape(self, index: int, shape: Sequence[int]) -> None:
        self._launcher.set_input_shape(index, shape)
        self._is_ready = self._is_kept = False

    def run(self) -> None:
        self._home_process.check()
        if not self._is_ready:
            self._get_ready()
        events: list[cl.Event | HostTime] = []
        begin = perf_counter()
        try:
            self._enqueue(events)
            self._queue.finish()
        except cl.Error as error:
            raise self._failure(error, len(events)) from error
        except LiteRtError:  # about shapes, or of a CPU layer, between two tasks
            self._renew_queue()
            raise
        if self._stopwatch is not None:
            self._stopwatch.add(perf_counter() - begin, self._launcher.launched, events)
        if not self._is_kept:
            self._keep_variants()

    def start(self, after: Sequence[Event]) -> Event:
        self._home_process.check()
        if not self._is_ready:
            self._get_ready()
        on_device = []
        for event in after:
            if isinstance(event, OpenClEvent) and event.context is self._context:
                on_device.append(event.event)
            elif not event.is_signaled():
                return self._start_in_thread(after)
            else:
                event.wait()  # raises its error, if it has one
        # Runs are measured one by one; some wait between tasks.
        if self._stopwatch is not None or self._launcher.waits:
            return self._start_in_thread(after)
        events: list[cl.Event | HostTime] = []
        try:
            self._enqueue(events, on_device)
            ended = cl.enqueue_marker(self._queue)
            self._queue.flush()
        except cl.Error as error:
            raise self._failure(error, len(events)) from error
        self._has_started = True
        return OpenClEvent(self._context, ended, lambda error: self._failure(error))

    def start_measuring(self, with_tasks: bool) -> None:
        self._stopwatch = Stopwatch(self._loaded.function.tasks if with_tasks else ())
        self._renew_queue()

    def stop_measuring(self) -> Measurement:
        if self._stopwatch is None:
            raise LiteRtError(Status.RUNTIME_FAILURE, "nothing is being measured", self._where)
        measurement = self._stopwatch.measurement()
        self._stopwatch = None
        self._renew_queue()
        return measurement

    def close(self) -> None:
        if self._home_process.is_here():
            with suppress(cl.Error):  # of a run that nobody waited for
                self._queue.finish()
            if self._has_started and not self._is_kept:
                self._keep_variants()
        self._inputs = [None] * len(self._inputs)
        self._outputs = [None] * len(self._outputs)
        self._sent = self._fetched = ()
        self._launcher.close()
        self._loaded.close()
        self._is_ready = False

    @property
    def _where(self) -> str:
        return f"function '{self._loaded.function.name}'"

    def _check_size(self, which: str, tensor_type: RankedTensorType, memory: BufferMemory) -> None:
        if memory.size_bytes < tensor_type.size_bytes:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{which} has a buffer of {memory.size_bytes} bytes, "
                f"{tensor_type} takes {tensor_type.size_bytes}",
                self._where,
            )

    def _detach(
        self, attached: list[BufferMemory | None], index: int, memory: BufferMemory
    ) -> None:
        if attached[index] is memory:
            attached[index] = None
            self._is_ready = False

    def _get_ready(self) -> None:
        missing = [f"input {i}" for i, memory in enumerate(self._inputs) if memory is None]
        missing += [f"output {i}" for i, memory in enumerate(self._outputs) if memory is None]
        if missing:
            raise LiteRtError(
                Status.MISSING_INPUT_TENSOR,
                f"nothing is attached to {', '.join(missing)}",
                self._where,
            )
        for index, memory in enumerate(self._inputs):
            assert memory is not None
            self._check_size(f"input {index}", self._loaded.input_type(index), memory)
        try:
            self._launcher.get_ready(self._queue)
        except cl.Error as error:
            raise self._failure(error) from error
        self._sent = [memory for memory in self._inputs if memory is not None and memory.is_copy]
        self._fetched = [
            memory for memory in self._outputs if memory is not None and memory.is_copy
        ]
        self._is_ready = True

    def _enqueue(self, events: list[cl.Event | HostTime], after: Sequence[cl.Event] = ()) -> None:
        """Enqueues a run behind some events; `events` gets one for each task."""
        queue = self._queue
        if self._tells_shapes and not self._launcher.is_staged:
            self._launcher.tell_shapes(queue, self._outputs)  # first, as it waits for the queue
        if after:
            cl.enqueue_barrier(queue, wait_for=after)
        for memory in self._sent:
            memory.send(queue)
        self._launcher.enqueue(queue, events)
        if self._tells_shapes and self._launcher.is_staged:
            self._launcher.tell_shapes(queue, self._outputs)
        for memory in self._fetched:
            memory.fetch(queue)

    def _start_in_thread(self, after: Sequence[Event]) -> Event:
        ended = Event()

        def run() -> None:
            try:
                for event in after:
                    event.wait()
                self.run()
            except BaseException as error:  # this thread is ours: who waits gets it
                ended.fail(error)
            else:
                ended.signal()

        Thread(target=run, name="litert-npu-run", daemon=True).start()
        return ended

    def _failure(self, error: cl.Error, task: int | None = None) -> LiteRtError:
        """The error of a run, after which the next one can be good.

        Args:
          error: OpenCL's.
          task: that could not be enqueued; None, or past the last, for a failure in the run.
        """
        self._renew_queue()
        tasks = self._loaded.function.tasks
        launched = [tasks[index] for index in self._launcher.launched]
        failed = launched[task : task + 1] if task is not None else ()
        kernels = ", ".join(f"kernel '{t.entry}' of op '{t.op_name}'" for t in failed or launched)
        return opencl_error(error, f"{self._where}, {kernels}")

    def _renew_queue(self) -> None:
        with suppress(cl.Error):
            self._queue.finish()
        has_times = self._stopwatch is not None and self._stopwatch.has_tasks
        self._queue = _create_queue(self._context, self._device, has_times)

    def _keep_variants(self) -> None:
        self._loaded.keep_variants(self._launcher.launched, self._launcher.launches)
        self._is_kept = True


def _create_queue(
    context: cl.Context, device: cl.Device, has_times: bool = False
) -> cl.CommandQueue:
    """A queue that runs in order; its events have times, if they are asked for."""
    if not has_times:
        return cl.CommandQueue(context, device)
    return cl.CommandQueue(context, device, cl.command_queue_properties.PROFILING_ENABLE)
