"""Runs a function of an executable on a device, with its own memory."""

from __future__ import annotations

from typing import Any

from dispatch.tensor_buffer import TensorBuffer
from tests.vendor_reference.executables import Array, assets, byte_code
from vendor_reference.device.module import Module
from vendor_reference.executable.executable import ArgumentKind, Executable


class Runner:
    """A loaded function with its own memory."""

    def __init__(
        self, device: Any, made: Executable, asset: str | bytes, *, allow_native: bool = False
    ) -> None:
        self.device = device
        self.module = Module(device, byte_code(made).view, assets(MyOp=asset), allow_native)
        function = self.module.find_function("f")
        self.function = self.module.load(function)
        self.inputs = [TensorBuffer.allocate(t) for t in function.inputs]
        self.outputs = [TensorBuffer.allocate(t) for t in function.outputs]
        self.memory = [device.share(b.address, b.size) for b in (*self.inputs, *self.outputs)]
        for index in range(len(self.inputs)):
            self.function.attach(ArgumentKind.INPUT, index, self.memory[index])
        for index in range(len(self.outputs)):
            self.function.attach(ArgumentKind.OUTPUT, index, self.memory[len(self.inputs) + index])

    def __call__(self, *inputs: Any) -> Array:
        for buffer, values in zip(self.inputs, inputs, strict=True):
            buffer.array()[...] = values
        self.function.run()
        return self.outputs[0].array()


def stop_measuring(function: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns a loaded function's metrics by name, and the names of its tasks' metrics in order."""
    metrics = {metric.name: metric.value for metric in function.stop_measuring()}
    return metrics, [name for name in metrics if name.startswith("task ")]
