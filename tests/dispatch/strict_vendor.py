"""A vendor that records each call, and each rule of the dispatch table that the host breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dispatch.api import (
    AsyncInterface,
    Capability,
    Dispatch,
    Event,
    ExecutableType,
    MemBuffer,
    Metric,
    SchedulingInfo,
    TensorBuffer,
    TensorBufferRequirements,
)
from dispatch.call import Call
from dispatch.session import Session
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.tensor_type import RankedTensorType

FLOATS = RankedTensorType.of(ElementType.FLOAT32, (4,))


class Context:
    """A device context or an invocation context of the strict vendor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = True
        self.in_use = threading.Lock()
        self.buffers: dict[int, TensorBuffer] = {}
        """The buffers registered with a device context, by handle."""
        self.attached: dict[tuple[str, int], int] = {}
        """The handles attached to an invocation context, by kind and index."""
        self.device: Context = self


class StrictDispatch(Dispatch[Context, Context]):
    """The strict vendor: its device writes input 0 plus 1 to each output.

    Attributes:
      calls: the calls, with indices and handles.
      broken: the rules that the host broke.
      failing: the function that raises `error` after its first `after` calls.
      open: the contexts that are not destroyed yet.
      destroyed: a function that is called with the name of each destroyed context.
      scheduled, run_options: the scheduling info and options that runs were given.
    """

    vendor_id = "Strict"
    build_id = "1"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broken: list[str] = []
        self.failing = ""
        self.after = 0
        self.error: BaseException = ValueError("the queue is full")
        self.open: list[Context] = []
        self.scheduled: list[SchedulingInfo] = []
        self.run_options: list[Mapping[str, str] | None] = []
        self.destroyed: Callable[[str], None] = lambda name: None
        self._handles = 0
        self._lock = threading.Lock()

    def count(self, function: str) -> int:
        """Returns how often a function was called."""
        return sum(call.split()[0] == function for call in self.calls)

    @contextmanager
    def called(self, text: str, context: Context | None = None) -> Iterator[None]:
        """Wraps each function: records the call, raises if the function is to fail, and checks the context."""
        function = text.split()[0]
        with self._lock:
            self.calls.append(text)
            is_failing = function == self.failing and self.count(function) > self.after
        if context is None:
            if is_failing:
                raise self.error
            yield
            return
        self.check(context.is_open, f"{text}: {context.name} is destroyed")
        with self.alone(text, context):
            if is_failing:
                raise self.error
            yield

    @contextmanager
    def alone(self, text: str, context: Context) -> Iterator[None]:
        """Wraps code in which no other thread may use the context."""
        alone = context.in_use.acquire(blocking=False)
        self.check(alone, f"{text}: {context.name} is in use by another thread")
        try:
            yield
        finally:
            if alone:
                context.in_use.release()

    def check(self, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(rule)

    def initialize(
        self, environment_options: EnvironmentOptions, options: Mapping[str, str]
    ) -> None:
        with self.called("initialize"):
            pass

    def check_runtime_compatibility(self, *_: Any) -> None:
        with self.called("check_runtime_compatibility"):
            pass

    def device_context_create(self, options: Mapping[str, str]) -> Context:
        with self.called("device_context_create"):
            return self._opened("the device context")

    def device_context_destroy(self, device_context: Context) -> None:
        with self.called("device_context_destroy", device_context):
            self.check(not device_context.buffers, "destroyed with buffers registered")
            others = [
                c for c in self.open if c.device is device_context and c is not device_context
            ]
            self.check(not others, "destroyed with calls open")
            self._destroyed(device_context)

    def register_asset(self, device_context: Context, name: str, buffer: MemBuffer) -> None:
        with self.called(f"register_asset {name}", device_context):
            pass

    def get_input_requirements(
        self, invocation_context: Context, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        with self.called(f"get_input_requirements {input_index}", invocation_context):
            return TensorBufferRequirements(FLOATS.size_bytes)

    def get_output_requirements(
        self, invocation_context: Context, output_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        with self.called(f"get_output_requirements {output_index}", invocation_context):
            return TensorBufferRequirements(tensor_type.size_bytes)

    def register_tensor_buffer(self, device_context: Context, tensor_buffer: TensorBuffer) -> int:
        handle, self._handles = self._handles, self._handles + 1
        with self.called(f"register_tensor_buffer {handle}", device_context):
            known = any(b is tensor_buffer for b in device_context.buffers.values())
            self.check(not known, f"buffer {handle} is registered twice")
            device_context.buffers[handle] = tensor_buffer
            return handle

    def unregister_tensor_buffer(self, device_context: Context, handle: int) -> None:
        with self.called(f"unregister_tensor_buffer {handle}", device_context):
            self.check(handle in device_context.buffers, f"{handle} was not registered")
            for context in [c for c in self.open if c.device is device_context]:
                attached = context.attached.values()
                self.check(handle not in attached, f"{handle} unregistered while attached")
            device_context.buffers.pop(handle, None)

    def invocation_context_create(
        self,
        device_context: Context,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> Context:
        with self.called(f"invocation_context_create {function_name}", device_context):
            self.check(executable_type is ExecutableType.ML_MODEL, "not an ML model")
            context = self._opened(function_name)
            context.device = device_context
            return context

    def invocation_context_destroy(self, invocation_context: Context) -> None:
        with self.called("invocation_context_destroy", invocation_context):
            self.check(not invocation_context.attached, "destroyed with buffers attached")
            self._destroyed(invocation_context)

    def set_scheduling_info(
        self, invocation_context: Context, scheduling_info: SchedulingInfo
    ) -> None:
        with self.called("set_scheduling_info", invocation_context):
            complete = scheduling_info == scheduling_info.with_defaults()
            self.check(complete, "scheduling info with a field left out")
            self.scheduled.append(scheduling_info)

    def set_options(
        self, invocation_context: Context, run_options: Mapping[str, str] | None
    ) -> None:
        with self.called("set_options", invocation_context):
            self.run_options.append(run_options)

    def attach_input(self, invocation_context: Context, index: int, handle: int) -> None:
        self._attach("input", invocation_context, index, handle)

    def attach_output(self, invocation_context: Context, index: int, handle: int) -> None:
        self._attach("output", invocation_context, index, handle)

    def detach_input(self, invocation_context: Context, index: int, handle: int) -> None:
        self._detach("input", invocation_context, index, handle)

    def detach_output(self, invocation_context: Context, index: int, handle: int) -> None:
        self._detach("output", invocation_context, index, handle)

    def invoke(self, invocation_context: Context) -> None:
        with self.called("invoke", invocation_context):
            self.run(invocation_context)

    def start_metrics_collection(self, invocation_context: Context, detail_level: int) -> None:
        with self.called("start_metrics_collection", invocation_context):
            pass

    def stop_metrics_collection(self, invocation_context: Context) -> Sequence[Metric]:
        with self.called("stop_metrics_collection", invocation_context):
            return [Metric("runs", self.count("invoke"))]

    def run(self, context: Context) -> None:
        """Computes a run's outputs, as the device would."""
        arrays = {}
        for (kind, index), handle in context.attached.items():
            buffer = context.device.buffers.get(handle)
            if buffer is None:
                self.broken.append(f"{kind} {index} of a run is unregistered")
                return
            arrays[kind, index] = buffer.array()
        for (kind, _), array in arrays.items():
            if kind == "output":
                array[:] = arrays["input", 0] + 1

    def _opened(self, name: str) -> Context:
        context = Context(name)
        self.open.append(context)
        return context

    def _destroyed(self, context: Context) -> None:
        self.destroyed(context.name)
        context.is_open = False
        self.open.remove(context)

    def _attach(self, kind: str, context: Context, index: int, handle: int) -> None:
        with (
            self.called(f"attach_{kind} {index} {handle}", context),
            self.alone(f"attach_{kind}", context.device),
        ):
            self.check(handle in context.device.buffers, f"{handle} attached, not registered")
            context.attached[kind, index] = handle

    def _detach(self, kind: str, context: Context, index: int, handle: int) -> None:
        with (
            self.called(f"detach_{kind} {index} {handle}", context),
            self.alone(f"detach_{kind}", context.device),
        ):
            self.check(handle in context.device.buffers, f"{handle} detached, not registered")
            if context.attached.get((kind, index)) == handle:
                del context.attached[kind, index]


class StrictAsyncInterface(AsyncInterface[Context]):
    """Asynchronous runs that end when `finish` is called."""

    def __init__(self, dispatch: StrictAsyncDispatch) -> None:
        self.dispatch = dispatch
        self.running: list[tuple[Context, Event]] = []

    def attach_input_event(self, invocation_context: Context, index: int, event: Event) -> None:
        with self.dispatch.called(f"attach_input_event {index}", invocation_context):
            pass

    def invoke_async(self, invocation_context: Context) -> Sequence[Event]:
        with self.dispatch.called("invoke_async", invocation_context):
            event = Event()
            self.running.append((invocation_context, event))
            outputs = sum(kind == "output" for kind, _ in invocation_context.attached)
            return [event] * outputs

    def finish(self) -> None:
        """Computes and ends all runs."""
        for context, event in self.running:
            self.dispatch.run(context)
            event.signal()
        self.running.clear()


class StrictAsyncDispatch(StrictDispatch):
    """The strict vendor with asynchronous runs."""

    capabilities = Capability.BASIC | Capability.ASYNC
    async_interface: StrictAsyncInterface

    def __init__(self) -> None:
        super().__init__()
        self.async_interface = StrictAsyncInterface(self)


def open_session(dispatch: Dispatch[Any, Any], assets: Sequence[str] = ()) -> Session:
    """Opens a session without options, with assets of these names."""
    return Session(
        dispatch,
        environment_options=EnvironmentOptions(),
        options={},
        assets=[(name, MemBuffer.from_memory(b"asset")) for name in assets],
    )


def open_call(session: Session, inputs: int = 1, outputs: int = 1, name: str = "f") -> Call:
    """Opens a call whose inputs and outputs are four floats each, with no buffers bound."""
    byte_code = MemBuffer.from_memory(b"byte code")
    return session.open_call(byte_code, name, [FLOATS] * inputs, [FLOATS] * outputs)


def bind_all(call: Call) -> list[TensorBuffer]:
    """Binds new buffers to all inputs and outputs; returns the input buffers, then the output buffers."""
    inputs = [TensorBuffer.allocate(FLOATS) for _ in call.input_requirements]
    outputs = [TensorBuffer.allocate(FLOATS) for _ in call.output_requirements]
    for index, buffer in enumerate(inputs):
        call.bind_input(index, buffer)
    for index, buffer in enumerate(outputs):
        call.bind_output(index, buffer)
    return [*inputs, *outputs]
