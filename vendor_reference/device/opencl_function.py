"""Runs a function on an OpenCL device with the memory that is attached to the function."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import Thread, current_thread
from typing import NoReturn

import pyopencl as cl

from dispatch.api import Metric, Receive
from dispatch.event import Event
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import RECORDINGS, Span, add_later, is_recording
from vendor_reference.device.function_memory import Slot
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_errors import opencl_error
from vendor_reference.device.opencl_memory import BufferMemory
from vendor_reference.device.queue_times import Ended, HostRun, QueueTimes
from vendor_reference.device.stopwatch import Stopwatch
from vendor_reference.device.task_sequence import TaskSequence
from vendor_reference.executable.executable import ArgumentKind

_POLL_S = 50e-6
_COMPLETE = 0
"""Value of `CL_COMPLETE`. Higher values mean that an OpenCL command is unfinished; negative values are errors."""

_numbers = count()


class OpenClEvent(Event):
    """Event that is signaled at the end of a run on an OpenCL device.

    Attributes:
      context: OpenCL context of the event. If a run has the same context, the device itself can wait for the
        event.
      event: OpenCL event object.
    """

    def __init__(
        self, context: cl.Context, event: cl.Event, failure: Callable[[cl.Error], LiteRtError]
    ) -> None:
        """Wraps an OpenCL event; `failure` converts an OpenCL error to a LiteRtError."""
        super().__init__()
        self.context = context
        self.event = event
        self._failure = failure

    def is_signaled(self) -> bool:
        return self.event.command_execution_status <= _COMPLETE

    def wait(self, timeout_s: float | None = None) -> None:
        if timeout_s is not None:
            deadline = time.monotonic() + timeout_s
            while not self.is_signaled():
                if time.monotonic() >= deadline:
                    raise LiteRtError(
                        Status.TIMEOUT_EXPIRED,
                        f"the run on the NPU did not end within {timeout_s} s",
                        hint="Wait longer, or without a timeout.",
                    )
                time.sleep(_POLL_S)
        try:
            self.event.wait()
        except cl.Error as error:
            raise self._failure(error) from error


class OpenClFunction:
    """A loaded function, which can do one run at a time."""

    def __init__(self, context: OpenClContext, tasks: TaskSequence) -> None:
        self._context = context
        self._tasks = tasks
        self._attached: dict[Slot, BufferMemory] = {}
        self._sent: Sequence[tuple[str, BufferMemory]] = ()
        self._fetched: Sequence[tuple[str, BufferMemory]] = ()
        self._is_ready = self._has_started = self._is_kept = self._is_measured = False
        self._stopwatch: Stopwatch | None = None
        self._receive: Receive | None = None
        self._tells_shapes = bool(tasks.function.dynamic_outputs)
        self._where = f"function '{tasks.function.name}'"
        self._queue = context.create_queue()
        self._times: QueueTimes | None = None  # None if the queue does not record times
        self._track = f"NPU queue {next(_numbers)}, {self._where}"

    def attach(self, kind: ArgumentKind, index: int, memory: BufferMemory) -> None:
        """Attaches memory to an input or output; the memory must stay valid until it is detached or replaced."""
        slot = (kind, index)
        self._check_size(slot, memory)
        self._attached[slot] = memory
        self._is_ready = False
        self._tasks.attach(slot, memory.buffer)

    def detach(self, kind: ArgumentKind, index: int, memory: BufferMemory) -> None:
        """Detaches memory from an input or output of the function; has no effect if the memory is not attached."""
        if self._attached.get((kind, index)) is memory:
            del self._attached[kind, index]
            self._is_ready = False

    def detach_all(self) -> None:
        """Waits for the current run, and detaches all memory; the function can be used again afterwards."""
        with suppress(cl.Error):  # error of a run for whose end no caller waited
            self._queue.finish()
        self._let_go()
        self._stopwatch = None  # the next caller starts its own measurement

    def has_dynamic_input(self, index: int) -> bool:
        """Whether callers must set the shape of input `index`."""
        return self._tasks.shapes.input_shape(index) is not None

    def set_input_shape(self, index: int, shape: Sequence[int]) -> None:
        """Sets the shape of input `index`, which must be dynamic, for the following runs.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the function was not compiled for the shape, or the shape exceeds its
            bound.
        """
        self._tasks.set_input_shape(index, shape)
        self._is_ready = self._is_kept = False

    def find_output_shape(self, index: int) -> Sequence[int] | None:
        """Returns the current shape of dynamic output `index`; None if the shape is known only after a run."""
        outputs = self._tasks.function.dynamic_outputs
        shape = next(output.shape for output in outputs if output.output == index)
        return self._tasks.shapes.find_ahead(shape)

    def run_tapped(self, receive: Receive) -> None:
        """Runs the tasks, and passes to `receive` the inner tensors that each task has written."""
        self._receive = receive
        try:
            self.run()
        finally:
            self._receive = None

    def run(self) -> None:
        """Runs the tasks, and returns when the outputs are in host memory.

        Raises:
          LiteRtError: MISSING_INPUT_TENSOR, if an input or output has no memory; RUNTIME_FAILURE or
            MEMORY_ALLOCATION_FAILURE, if the device reports an error; the message contains the names of the op and
            the kernel. The function can be run again after an error.
        """
        self._context.check_home()
        if not self._is_ready:
            self._get_ready()
        if self._is_measured or (RECORDINGS and is_recording()):
            self._run_measured()
        else:
            events: dict[int, Ended] = {}
            try:
                self._enqueue(events, {})
                self._queue.finish()
                self._tasks.check(self._queue)
            except (cl.Error, LiteRtError) as error:
                self._fail(error, events)
        if not self._is_kept:
            self._tasks.keep_variants()
            self._is_kept = True

    def start(self, after: Sequence[Event]) -> Event:
        """Starts a run that waits for the given events.

        Returns an event that is signaled when the outputs are ready.
        """
        self._context.check_home()
        if not self._is_ready:
            self._get_ready()
        on_device = []
        for event in after:
            if isinstance(event, OpenClEvent) and event.context is self._context.cl_context:
                on_device.append(event.event)
            elif not event.is_signaled():
                return self._start_in_thread(after)
            else:
                event.wait()  # raises the event's error, if any
        # A thread is needed to measure single runs, and to wait between tasks.
        if self._stopwatch is not None or self._tasks.waits or is_recording():
            return self._start_in_thread(after)
        if self._is_measured:
            self._is_measured = False
            self._renew_queue()
        events: dict[int, Ended] = {}
        try:
            self._enqueue(events, {}, on_device)
            ended = cl.enqueue_marker(self._queue)
            self._queue.flush()
        except cl.Error as error:
            raise self._failure(error, events) from error
        self._has_started = True
        return OpenClEvent(self._context.cl_context, ended, lambda error: self._failure(error))

    def watch_tasks(self, running: memoryview[int]) -> Sequence[str]:
        """Lets each run write the number of its current launch to `running` (see `Dispatch.watch_tasks`)."""
        return self._tasks.watch(running)

    def start_measuring(self, with_tasks: bool) -> None:
        """Starts to measure runs; if `with_tasks` is true, each task is measured, too, which makes runs slower."""
        self._stopwatch = Stopwatch(self._tasks.function.tasks if with_tasks else ())
        self._is_measured = True

    def stop_measuring(self) -> Sequence[Metric]:
        """Stops measuring, and returns the measurements since `start_measuring`."""
        if self._stopwatch is None:
            what = "the measurement was stopped, but had not been started"
            raise LiteRtError(Status.RUNTIME_FAILURE, what, self._where, "Start it first.")
        metrics = self._stopwatch.metrics()
        self._stopwatch = None
        return metrics

    def close(self) -> None:
        """Releases the memory and programs of the function."""
        if self._context.is_home():
            with suppress(cl.Error):  # error of a run for whose end no caller waited
                self._queue.finish()
            if self._has_started and not self._is_kept:
                self._tasks.keep_variants()
        self._let_go()
        self._tasks.close()

    def _let_go(self) -> None:
        """Drops all references to attached memory."""
        self._attached.clear()
        self._sent = self._fetched = ()
        self._is_ready = False

    def _check_size(self, slot: Slot, memory: BufferMemory) -> None:
        kind, index = slot
        is_input = kind is ArgumentKind.INPUT
        types = self._tasks.function.outputs
        tensor_type = self._tasks.input_type(index) if is_input else types[index]
        if memory.size_bytes < tensor_type.size_bytes:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the buffer of {kind.value} {index} has {memory.size_bytes} bytes, "
                f"but {tensor_type} needs {tensor_type.size_bytes}",
                self._where,
            )

    def _get_ready(self) -> None:
        function = self._tasks.function
        inputs = [(ArgumentKind.INPUT, index) for index in range(len(function.inputs))]
        outputs = [(ArgumentKind.OUTPUT, index) for index in range(len(function.outputs))]
        slots = [*inputs, *outputs]
        missing = [f"{kind.value} {i}" for kind, i in slots if (kind, i) not in self._attached]
        if missing:
            raise LiteRtError(
                Status.MISSING_INPUT_TENSOR,
                f"no buffer is attached to {', '.join(missing)}",
                self._where,
                "Attach a buffer to each input and output before the run.",
            )
        for slot in inputs:
            self._check_size(slot, self._attached[slot])
        try:
            self._tasks.get_ready(self._queue)
        except cl.Error as error:
            raise self._failure(error) from error
        self._sent = self._copied(inputs)
        self._fetched = self._copied(outputs)
        self._is_ready = True

    def _copied(self, slots: Sequence[Slot]) -> Sequence[tuple[str, BufferMemory]]:
        """Returns the memory of the inputs or outputs that each run copies, by the name in time spans."""
        found = [(f"{kind.value} {index}", self._attached[kind, index]) for kind, index in slots]
        return [(name, memory) for name, memory in found if memory.host is not None]

    def _enqueue(
        self,
        events: dict[int, Ended],
        transfers: dict[str, cl.Event],
        after: Sequence[cl.Event] = (),
    ) -> None:
        """Enqueues a run after some events; `events` gets an event for each launch, `transfers` for each copy."""
        queue = self._queue
        if self._tells_shapes and not self._tasks.is_staged:
            self._tasks.tell_shapes(queue)  # first, as it waits for the queue
        if after:
            cl.enqueue_barrier(queue, wait_for=after)
        for name, memory in self._sent:
            transfers[name] = memory.send(queue)
        show = None if self._receive is None else partial(self._tasks.show, queue, self._receive)
        is_each = show is not None or self._times is not None
        self._tasks.enqueue(queue, events, is_each, show)
        if self._tells_shapes and self._tasks.is_staged:
            self._tasks.tell_shapes(queue)
        for name, memory in self._fetched:
            transfers[name] = memory.fetch(queue)

    def _run_measured(self) -> None:
        """Runs the tasks, and passes their times to recordings and stopwatch.

        Creates a new queue if times are needed and the queue does not record them, or vice versa.
        """
        stopwatch = self._stopwatch
        has_times = is_recording() or (stopwatch is not None and stopwatch.has_tasks)
        if has_times is not (self._times is not None):
            self._renew_queue(has_times)
        self._is_measured = has_times or stopwatch is not None
        events: dict[int, Ended] = {}
        transfers: dict[str, cl.Event] = {}
        begin_ns = time.perf_counter_ns()
        try:
            self._enqueue(events, transfers)
            enqueued_ns = time.perf_counter_ns()
            self._queue.finish()
            end_ns = time.perf_counter_ns()
            self._tasks.check(self._queue)
        except (cl.Error, LiteRtError) as error:
            self._fail(error, events)
        spans: Callable[[], Sequence[Span]] = tuple
        if self._times is not None:
            run = HostRun(begin_ns, enqueued_ns, end_ns, current_thread().name)
            spans = add_later(partial(self._times.spans, events, transfers, run))
        if stopwatch is not None:
            stopwatch.add((end_ns - begin_ns) / 1e9, spans)

    def _start_in_thread(self, after: Sequence[Event]) -> Event:
        ended = Event()

        def run() -> None:
            try:
                for event in after:
                    event.wait()
                self.run()
            except BaseException as error:  # waiting for the event raises the error
                ended.fail(error)
            else:
                ended.signal()

        Thread(target=run, name="litert-npu-run", daemon=True).start()
        return ended

    def _failure(self, error: cl.Error, events: Collection[int] | None = None) -> LiteRtError:
        """Converts the OpenCL error of a run; the next run may succeed.

        `events` contains the tasks that were enqueued: the next task failed, or the run itself if all were
        enqueued.
        """
        self._renew_queue()
        tasks = self._tasks.function.tasks
        launched = list(self._tasks.launches)
        failed = [] if events is None else [i for i in launched if i not in events][:1]
        named = [tasks[index] for index in failed or launched]
        kernels = ", ".join(f"kernel '{t.entry}' of op '{t.op_name}'" for t in named)
        return opencl_error(error, f"{self._where}, {kernels}")

    def _fail(self, error: cl.Error | LiteRtError, events: Collection[int]) -> NoReturn:
        """Raises the error of a run in which some tasks were launched: an error of OpenCL or of this package."""
        if isinstance(error, cl.Error):
            raise self._failure(error, events) from error
        self._renew_queue()
        raise error

    def _renew_queue(self, has_times: bool = False) -> None:
        with suppress(cl.Error):
            self._queue.finish()
        self._queue = self._context.create_queue(has_times)
        self._times = None
        if has_times:
            self._times = QueueTimes(self._queue, self._tasks.function, self._track)
