"""Test's dispatch table: JSON in the byte code sets the memory requirements; a function's name is what it does."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dispatch.api import Dispatch, ExecutableType, MemBuffer, Metric, Receive
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

Array = np.ndarray[Any, Any]


class Device:
    """A device context."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.assets: dict[str, bytes] = {}
        self.asset_fds: list[int] = []


class Call:
    """An invocation context."""

    def __init__(self, device: Device, byte_code: MemBuffer, name: str, num: int) -> None:
        self.device = device
        self.name = name
        self.settings: dict[str, int] = json.loads(bytes(byte_code.view))
        self.inputs: dict[int, TensorBuffer] = {}
        self.outputs: dict[int, TensorBuffer] = {}
        self.is_measured = False
        self.num_runs = 0
        self.num_outputs = num
        self.input_shape: Sequence[int] = ()


class TestDispatch(Dispatch[Device, Call]):
    """The dispatch table of a vendor whose device is NumPy.

    Attributes:
      devices, calls: the open contexts.
      registered: the registered buffers.
      failing: function names, each with the error that its next run raises.
    """

    __test__ = False  # for pytest: this class is no test

    vendor_id = "Test"

    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.calls: list[Call] = []
        self.registered: list[TensorBuffer] = []
        self.failing: dict[str, BaseException] = {}

    def device_context_create(self, options: Mapping[str, str]) -> Device:
        device = Device(options)
        self.devices.append(device)
        return device

    def device_context_destroy(self, device_context: Device) -> None:
        self.devices.remove(device_context)

    def register_asset(self, context: Device, asset_name: str, asset_buffer: MemBuffer) -> None:
        context.assets[asset_name] = bytes(asset_buffer.view)
        context.asset_fds.append(asset_buffer.fd)

    def register_tensor_buffer(self, context: Device, tensor_buffer: TensorBuffer) -> TensorBuffer:
        self.registered.append(tensor_buffer)
        return tensor_buffer

    def unregister_tensor_buffer(self, context: Device, handle: TensorBuffer) -> None:
        self.registered.remove(handle)

    def invocation_context_create(
        self,
        device_context: Device,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> Call:
        if function_name.split("@")[0] not in FUNCTIONS:
            raise LiteRtError(Status.NOT_FOUND, "no such function", function_name)
        call = Call(device_context, byte_code, function_name, num_outputs)
        self.calls.append(call)
        return call

    def invocation_context_destroy(self, invocation_context: Call) -> None:
        self.calls.remove(invocation_context)

    def get_input_requirements(
        self, call: Call, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        call.input_shape = tensor_type.shape
        return self._requirements(call, tensor_type)

    def get_output_requirements(
        self, call: Call, output_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        found = self._requirements(call, tensor_type)
        if call.settings.get("tells") and not tensor_type.layout.is_static:
            return replace(found, shape=call.input_shape)
        return found

    def attach_input(self, call: Call, index: int, handle: TensorBuffer) -> None:
        call.inputs[index] = handle

    def attach_output(self, call: Call, index: int, handle: TensorBuffer) -> None:
        call.outputs[index] = handle

    def detach_input(self, call: Call, index: int, handle: TensorBuffer) -> None:
        if call.inputs.get(index) is handle:
            del call.inputs[index]

    def detach_output(self, call: Call, index: int, handle: TensorBuffer) -> None:
        if call.outputs.get(index) is handle:
            del call.outputs[index]

    def invoke(self, call: Call) -> None:
        error = self.failing.pop(call.name, None)
        if error is not None:
            raise error
        call.num_runs += 1
        inputs = [call.inputs[i].array() for i in range(len(call.inputs))]
        outputs = [call.outputs[i].array() for i in range(call.num_outputs)]
        FUNCTIONS[call.name.split("@")[0]](inputs, outputs)

    def invoke_tapped(self, call: Call, receive: Receive) -> None:
        self.invoke(call)
        for index, buffer in call.inputs.items():
            receive(f"input {index}", buffer.tensor_type, buffer.view)

    def watch_tasks(self, call: Call, running: memoryview[int]) -> Sequence[str]:
        return [f"function '{call.name}'"]

    def start_metrics_collection(self, call: Call, detail_level: int) -> None:
        if not call.settings.get("metrics"):
            super().start_metrics_collection(call, detail_level)
        call.is_measured, call.num_runs = True, 0

    def stop_metrics_collection(self, call: Call) -> Sequence[Metric]:
        if not call.is_measured:
            super().stop_metrics_collection(call)
        return [Metric("runs", call.num_runs)]

    def _requirements(self, call: Call, tensor_type: RankedTensorType) -> TensorBufferRequirements:
        known = [max(d, 1) for d in tensor_type.shape]
        size = int(np.prod(known)) * tensor_type.element_type.bits // 8
        if not tensor_type.layout.is_static:
            size = call.settings["max_bytes"]
        return TensorBufferRequirements(
            size + call.settings.get("padding", 0), alignment=call.settings.get("alignment", 64)
        )


def _double(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    np.multiply(inputs[0], 2, out=outputs[0])


def _subtract(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    np.subtract(inputs[0], inputs[1], out=outputs[0])


def _split(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Writes the input and its negative."""
    outputs[0][...] = inputs[0]
    outputs[1][...] = -inputs[0]


def _positive(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Writes the elements greater than 0, and their shape."""
    found = inputs[0][inputs[0] > 0]
    outputs[0].reshape(-1)[: found.size] = found
    outputs[1][...] = found.size


def _double_any(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Writes twice the input, and its shape."""
    outputs[0].reshape(-1)[: inputs[0].size] = 2 * inputs[0].reshape(-1)
    outputs[1][...] = inputs[0].shape


def _lie(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Writes a shape that is far too large."""
    outputs[1][...] = 1 << 30


def _sleep(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    GATE.wait(20)
    outputs[0][...] = inputs[0]


def _nap(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    time.sleep(0.001)
    np.multiply(inputs[0], 2, out=outputs[0])


def _fragile(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Writes twice the input; some inputs end or block its process, or fill its memory."""
    first = int(inputs[0].flat[0])
    if first == LEAVES:
        os._exit(0)
    if first == HANGS:
        time.sleep(60)
    if first == GROWS:
        np.ones(4 << 30, np.uint8)
    if first < 0:
        os.kill(os.getpid(), -first)
    np.multiply(inputs[0], 2, out=outputs[0])


def _process(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Writes the process ID."""
    outputs[0][...] = os.getpid()


LEAVES, HANGS, GROWS = 1001, 1002, 1003
"""Inputs of `fragile` that its process does not survive; -n sends signal n to the process."""

FUNCTIONS: dict[str, Callable[[Sequence[Array], Sequence[Array]], None]] = {
    "double": _double,
    "subtract": _subtract,
    "split": _split,
    "positive": _positive,
    "lie": _lie,
    "double_any": _double_any,
    "sleep": _sleep,
    "nap": _nap,
    "fragile": _fragile,
    "process": _process,
}
GATE = threading.Event()
"""The event that the function `sleep` waits for."""

DISPATCH = TestDispatch()
