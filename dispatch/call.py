"""One NPU call of a loaded model: the buffers and the runs of the call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dispatch.api import ExecutableType, Metric, Receive
from dispatch.device import OpenDevice, Port
from dispatch.device_buffer import DeviceBuffer
from dispatch.event import Event
from dispatch.isolation.watched_invoke import watched_invoke
from dispatch.mem_buffer import MemBuffer
from dispatch.metrics import check_metrics
from dispatch.requirements import choose_own_type, find_memory_misfit
from dispatch.run_settings import RunSettings
from dispatch.scheduling import SchedulingInfo
from dispatch.tensor_buffer import BufferType, TensorBuffer, TensorBufferRequirements
from dispatch.vendor import clean_up
from dispatch.worker import Worker
from litert.core.counts import out_of_range
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.named_frames import name_frames
from litert.host.vendor_call import ENDING, VendorCall


class Call:
    """One NPU call of a loaded model; when the session is closed, its calls are closed too.

    The methods can be called from any thread. Each method first waits until methods called by other threads have
    returned, and until a started asynchronous run has ended.

    Attributes:
      function_name: Name of the byte code function that the NPU call runs.
      input_requirements, output_requirements: The vendor's buffer requirements for each input and each output.
      can_reshape: Whether `reshape` can change shapes, without a new NPU call.
      shares_memory: Whether tensors must be in memory from `allocate`; this memory is shared with the device's
        process.
    """

    def __init__(
        self,
        device: OpenDevice,
        worker: Worker,
        byte_code: MemBuffer,
        function_name: str,
        input_types: Sequence[RankedTensorType],
        output_types: Sequence[RankedTensorType],
        on_close: Callable[[], object],
    ) -> None:
        """Loads the function, and gets the vendor's buffer requirements for all inputs, then for all outputs."""
        self.function_name = function_name
        self._of_this = f" of '{function_name}'"  # follows a function's name in messages
        self._device = device
        self._vendor = vendor = device.vendor
        self._worker = worker
        self._byte_code: MemBuffer | None = byte_code  # kept mapped while the call is open
        self._lock = threading.Lock()
        self._on_close = on_close
        self._is_open = True
        self._is_ready = False  # open, with all buffers bound, and no run under way
        self._pending: Sequence[Event] = ()
        self._buffers: tuple[TensorBuffer, ...] = ()
        self._device_buffers: Sequence[DeviceBuffer] = ()
        invoke = name_frames(vendor.dispatch.invoke, f"of NPU call '{function_name}'")
        with device.lock:
            self._context = vendor.create(
                "invocation_context_create",
                device.context,
                ExecutableType.ML_MODEL,
                byte_code,
                function_name,
                len(input_types),
                len(output_types),
                detail=self._of_this,
            )
        self._settings = RunSettings(vendor, self._context, self._of_this)
        self._takes_settings = self._settings.are_taken
        self._is_measured = False
        try:
            self._invoke = watched_invoke(vendor, self._context, function_name, invoke)
            self._inputs = [
                Port(device, self._context, "input", index, tensor_type, self._of_this)
                for index, tensor_type in enumerate(input_types)
            ]
            self._outputs = [
                Port(device, self._context, "output", index, tensor_type, self._of_this)
                for index, tensor_type in enumerate(output_types)
            ]
        except BaseException:
            clean_up([self._destroy_context])
            raise
        self.can_reshape = vendor.dispatch.can_reshape
        self.shares_memory = vendor.dispatch.shared_memory is not None
        # Types of the vendor's current shapes; empty after a failed `reshape`, which may have changed some shapes.
        self._types: Sequence[RankedTensorType] = [*input_types, *output_types]
        self._note_requirements()

    def reshape(
        self, input_types: Sequence[RankedTensorType], output_types: Sequence[RankedTensorType]
    ) -> None:
        """Changes shapes, and gets the vendor's new buffer requirements for the changed inputs and outputs.

        The caller must bind the buffers of these inputs and outputs again before the next run. A buffer that is
        bound again stays registered and attached.
        Only vendors with `can_reshape` support `reshape`.

        Raises:
          LiteRtError: The vendor's error, or RUNTIME_FAILURE if the vendor returned an invalid value. After an
            error, `reshape` can be called again.
        """
        with self._lock:
            self._settle()
            self._is_ready = False
            self._buffers = self._device_buffers = ()
            types = [*input_types, *output_types]
            former: Sequence[RankedTensorType | None] = self._types or [None] * len(types)
            self._types = ()
            ports = [*self._inputs, *self._outputs]
            for port, tensor_type, before in zip(ports, types, former, strict=True):
                if tensor_type != before or not tensor_type.layout.is_static:
                    port.ask(tensor_type)
            self._types = types
            self._note_requirements()

    def find_largest_input(self, index: int, pattern: RankedTensorType) -> int:
        """Returns the size in bytes of the largest tensor that matches an input's pattern; needs `can_reshape`."""
        with self._lock:
            self._settle()
            return self._inputs[index].ask_for(pattern).size

    def allocate(
        self, requirements: TensorBufferRequirements, tensor_type: RankedTensorType, size: int
    ) -> TensorBuffer | None:
        """Allocates a zeroed buffer of `size` bytes in the vendor's device memory or in shared memory.

        If the vendor accepts any host memory, returns None.
        """
        shared = self._vendor.dispatch.shared_memory
        if shared is not None and BufferType.HOST_MEMORY in requirements.supported_types:
            return shared.allocate(tensor_type, size)
        buffer_type = choose_own_type(requirements, self._vendor.dispatch.buffer_handlers)
        if buffer_type is None:
            return None
        return DeviceBuffer(self._vendor, tensor_type, buffer_type, size)

    def takes(self, requirements: TensorBufferRequirements, buffer: TensorBuffer) -> bool:
        """Returns whether a buffer has the size, alignment and memory type that an input or output requires."""
        return find_memory_misfit(buffer, requirements, self._vendor.dispatch) is None

    def bind_input(self, index: int, buffer: TensorBuffer) -> None:
        """Binds a buffer to input `index`; later runs read the input from this buffer.

        The NPU call keeps the buffer alive until another buffer replaces it or the NPU call is closed. The buffer
        keeps its owner alive.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the buffer does not meet the requirements; INDEX_OOB, if the call has
            no input `index`; any error of the vendor.
        """
        self._bind(self._inputs, "input", index, buffer)

    def bind_output(self, index: int, buffer: TensorBuffer) -> None:
        """Binds a buffer to output `index`, in the same way as `bind_input`; later runs write to this buffer."""
        self._bind(self._outputs, "output", index, buffer)

    def invoke(self) -> None:
        """Runs the NPU call; when `invoke` returns, all outputs are written.

        `invoke` waits for asynchronous runs that write the call's inputs or outputs.

        Raises:
          LiteRtError: MISSING_INPUT_TENSOR, if an input or output has no buffer; any error of the vendor; the
            error of an asynchronous run that writes one of the inputs. After an error, the NPU call can be run
            again.
        """
        with self._lock:
            if not self._is_ready:
                self._get_ready()
            for buffer in self._buffers:
                if buffer.event is not None:
                    self._wait_for_buffers()
                    break
            if self._takes_settings:
                self._settings.give()
            if self._device_buffers:
                self._invoke_on_device_buffers()
                return
            try:
                self._invoke(self._context)
            except ENDING:
                raise
            except BaseException:
                with VendorCall(self._vendor.dispatch.vendor_id, "invoke" + self._of_this):
                    raise

    def invoke_tapped(self, receive: Receive) -> None:
        """Runs the NPU call like `invoke`, and passes each named intermediate tensor to `receive` once.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor cannot pass intermediate tensors; RUNTIME_FAILURE, if the vendor
            passes an invalid tensor; any error of `invoke`.
        """
        seen: set[str] = set()

        def take(name: str, tensor_type: RankedTensorType, data: memoryview) -> None:
            if name in seen:
                raise self._vendor.nonsense(
                    f"invoke_tapped{self._of_this}",
                    f"the vendor passed tensor '{name}' of type {tensor_type} twice",
                    "The function must pass each tensor only once.",
                )
            if not tensor_type.layout.is_static or data.nbytes != tensor_type.size_bytes:
                raise self._vendor.nonsense(
                    f"invoke_tapped{self._of_this}",
                    f"the vendor passed tensor '{name}' of type {tensor_type} with {data.nbytes} bytes",
                    "The function must pass each tensor with its full shape and all of its bytes.",
                )
            seen.add(name)
            receive(name, tensor_type, data)

        with self._lock:
            self._get_ready()
            self._wait_for_buffers()
            self._settings.give()
            self._give_buffers()
            try:
                self._call("invoke_tapped", take)
            finally:
                self._take_buffers_back()

    def invoke_async(self) -> Sequence[Event]:
        """Starts a run without waiting for its end.

        If the vendor does not support asynchronous runs, a thread of the session makes a synchronous run. Runs of
        the same NPU call never overlap.

        Returns:
          One event for each output, which is signaled when the output is written. Until a caller has waited for an
          event, the output's buffer also has this event as its `event`.

        Raises:
          LiteRtError: Any error of `invoke` that occurs before the run starts. Errors of the run itself are raised
            by the events.
        """
        with self._lock:
            self._get_ready()
            self._wait_for_outputs()
            self._settings.give()
            if self._vendor.dispatch.async_interface is None:
                ended = self._start_in_worker()
                events: Sequence[Event] = [ended] * len(self._outputs)
                self._pending = [ended]
            else:
                self._pending = events = self._start_on_device()
            self._is_ready = False
            for buffer, event in zip(self._output_buffers, events, strict=True):
                buffer.event = event
            return events

    def set_scheduling_info(self, scheduling_info: SchedulingInfo) -> None:
        """Sets the scheduling info of all later runs; fields that are None get LiteRT's defaults."""
        with self._lock:
            self._settings.scheduling_info = scheduling_info.with_defaults()

    def set_options(self, options: Mapping[str, str] | None) -> None:
        """Sets the options of all later runs; None means no options."""
        with self._lock:
            self._settings.options = options

    def start_metrics(self, detail: int = 1) -> None:
        """Starts collecting metrics of runs; a higher detail level gives more metrics, and may slow down runs.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor does not support metrics.
        """
        with self._lock:
            self._settle()
            if self._is_measured:
                raise self._wrong_order(
                    "the collection of metrics is already started", "Call stop_metrics first."
                )
            self._call("start_metrics_collection", detail)
            self._is_measured = True

    def stop_metrics(self) -> Sequence[Metric]:
        """Stops collecting metrics, and returns the metrics collected since `start_metrics`.

        Raises:
          LiteRtError: RUNTIME_FAILURE, if `start_metrics` was not called or the vendor returned an invalid value;
            any error of the vendor.
        """
        with self._lock:
            self._settle()
            if not self._is_measured:
                raise self._wrong_order(
                    "the collection of metrics is not started", "Call start_metrics first."
                )
            self._is_measured = False
            metrics = self._call("stop_metrics_collection")
            return check_metrics(self._vendor, metrics, self._of_this)

    def close(self) -> None:
        """Detaches and unregisters all buffers, and destroys the invocation context; errors are only logged."""
        with self._lock:
            if not self._is_open:
                return
            self._wait_for_run()
            self._is_open = self._is_ready = False
            ports = [*reversed(self._outputs), *reversed(self._inputs)]
            self._buffers = self._device_buffers = ()
            self._byte_code = None
            clean_up(
                [
                    *(port.detach for port in ports),
                    *(port.release for port in ports),
                    self._destroy_context,
                    self._on_close,
                ]
            )

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bind(self, ports: Sequence[Port], kind: str, index: int, buffer: TensorBuffer) -> None:
        if not 0 <= index < len(ports):
            raise LiteRtError(
                Status.INDEX_OOB,
                out_of_range(kind, index, len(ports)),
                f"function '{self.function_name}'",
            )
        port = ports[index]
        if port.buffer is buffer:
            return
        with self._lock:
            self._settle()
            self._is_ready = False
            self._buffers = self._device_buffers = ()
            port.bind(buffer)

    def _note_requirements(self) -> None:
        self.input_requirements = [port.requirements for port in self._inputs]
        self.output_requirements = [port.requirements for port in self._outputs]

    def _settle(self) -> None:
        """Checks that the NPU call is open, and waits for the current run."""
        if not self._is_open:
            raise self._wrong_order(
                "the NPU call is closed", "Open a new NPU call with Session.open_call."
            )
        self._wait_for_run()

    def _wrong_order(self, what: str, hint: str) -> LiteRtError:
        where = f"function '{self.function_name}'"
        return LiteRtError(Status.RUNTIME_FAILURE, what, where, hint)

    @property
    def _input_buffers(self) -> Sequence[TensorBuffer]:
        return self._buffers[: len(self._inputs)]

    @property
    def _output_buffers(self) -> Sequence[TensorBuffer]:
        return self._buffers[len(self._inputs) :]

    def _get_ready(self) -> None:
        self._settle()
        ports = [*self._inputs, *self._outputs]
        if len(self._types) != len(ports):
            raise self._wrong_order(
                "the NPU call has no valid shapes, because its last reshape failed",
                "Reshape the NPU call to supported shapes before the run.",
            )
        buffers = [port.buffer for port in ports]
        unbound = [port.name for port, buffer in zip(ports, buffers, strict=True) if buffer is None]
        if unbound:
            raise LiteRtError(
                Status.MISSING_INPUT_TENSOR,
                f"no buffer is bound to {', '.join(unbound)}",
                f"function '{self.function_name}'",
                "Bind a buffer to each input and output before the run.",
            )
        self._buffers = tuple(buffer for buffer in buffers if buffer is not None)
        self._device_buffers = [b for b in self._buffers if isinstance(b, DeviceBuffer)]
        self._is_ready = True

    def _invoke_on_device_buffers(self) -> None:
        self._give_buffers()
        try:
            self._call("invoke")
        except BaseException:
            clean_up([buffer.take_back for buffer in self._device_buffers])
            raise
        self._take_buffers_back()

    def _give_buffers(self) -> None:
        for buffer in self._device_buffers:
            buffer.give()

    def _take_buffers_back(self) -> None:
        for buffer in self._device_buffers:
            buffer.take_back()

    def _wait_for_run(self) -> None:
        if not self._pending:
            return
        for event in self._pending:
            with suppress(Exception):  # waiting for the event raises the error
                event.wait()
        self._pending = ()
        self._take_buffers_back()

    def _wait_for_buffers(self) -> None:
        """Waits until no asynchronous run writes the inputs or outputs any more."""
        for buffer in self._input_buffers:
            buffer.wait()
        self._wait_for_outputs()

    def _wait_for_outputs(self) -> None:
        for buffer in self._output_buffers:
            with suppress(LiteRtError):  # the next run overwrites outputs of a failed run
                buffer.wait()
            buffer.event = None

    def _start_on_device(self) -> Sequence[Event]:
        self._give_buffers()
        for index, buffer in enumerate(self._input_buffers):
            if buffer.event is not None:
                self._call("attach_input_event", index, buffer.event)
        events = self._vendor.start(self._context, self.function_name, len(self._outputs))
        for event in events:
            event.run = VendorCall(self._vendor.dispatch.vendor_id, "invoke_async" + self._of_this)
        return events

    def _start_in_worker(self) -> Event:
        inputs = [b.event for b in self._input_buffers if b.event is not None]

        def run() -> None:
            for event in inputs:
                event.wait()
            self._give_buffers()
            self._call("invoke")

        return self._worker.start(run)

    def _call(self, function: str, *args: object) -> Any:
        return self._vendor.call(function, self._context, *args, detail=self._of_this)

    def _destroy_context(self) -> None:
        with self._device.lock:
            self._call("invocation_context_destroy")
