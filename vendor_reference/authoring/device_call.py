"""Loads a function of an executable onto the device like the runtime, runs the function and measures it.

Guard regions before and after each tensor's memory reveal kernels that read or write outside a tensor.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from dispatch.call import Call
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from dispatch.tensor_buffer import ALIGNMENT, TensorBuffer
from litert.core.environment_options import EnvironmentOptions
from litert.core.tensor_type import RankedTensorType
from litert.core.tracing import SpanKind, record
from litert.model.assets import Asset
from litert.model.blob import Blob
from vendor_reference.dispatch import DISPATCH
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Executable,
    Function,
    KernelTask,
    Program,
)
from vendor_reference.soc import SOC_MODELS

_WARM_UPS = 2
_GUARD_BYTES = 4096

Array = np.ndarray[Any, np.dtype[Any]]


class GuardedTensor:
    """A tensor's memory with guards, filled with zeros at first.

    `array` is NumPy's view of the memory, and `buffer` is the vendor's view.
    """

    def __init__(self, tensor_type: RankedTensorType) -> None:
        size = tensor_type.size_bytes
        self._memory: Array = np.zeros(size + 2 * _GUARD_BYTES + ALIGNMENT, np.uint8)
        place = self._memory.ctypes.data + _GUARD_BYTES
        self._start = _GUARD_BYTES + -place % ALIGNMENT
        self._end = self._start + size
        self.tensor_type = tensor_type
        dtype = tensor_type.element_type.numpy_dtype
        self._bytes = self._memory[self._start : self._end]
        self.array: Array = self._bytes.view(dtype).reshape(tensor_type.shape)
        address = self._memory.ctypes.data + self._start
        self.buffer = TensorBuffer(tensor_type, address, size, self._memory)
        self._guard = 0

    def fill(self, byte: int) -> None:
        """Sets all bytes of the tensor to a value, without changing the guards."""
        self._bytes[:] = byte

    def fill_guards(self, byte: int) -> None:
        """Sets all bytes of the guards to a value, without changing the tensor."""
        self._memory[: self._start] = self._memory[self._end :] = self._guard = byte

    def content(self) -> bytes:
        """Returns a copy of the tensor's bytes."""
        return self._bytes.tobytes()

    def damage(self) -> int | None:
        """Returns the offset from the tensor's start to the first guard byte that has changed.

        Returns None if no guard byte has changed.

        Writes beyond the guards are not detected.
        """
        for begin, end in ((0, self._start), (self._end, len(self._memory))):
            changed = np.flatnonzero(self._memory[begin:end] != self._guard)
            if len(changed):
                return int(changed[0]) + begin - self._start
        return None


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Durations of measured runs, in seconds; each list has one number for each run.

    Attributes:
      kernels: Time of each kernel on the device, by kernel name; if a kernel is launched several times in a run,
        its times are added.
      calls: Time of the whole call, measured on the host.
    """

    kernels: dict[str, list[float]]
    calls: list[float]


class DeviceCall:
    """A loaded function that is ready to run, with the memory of its inputs and outputs."""

    def __init__(
        self,
        call: Call,
        function: Function,
        inputs: Sequence[GuardedTensor],
        outputs: Sequence[GuardedTensor],
    ) -> None:
        self._call = call
        self._told = {found.output: found.shape_output for found in function.dynamic_outputs}
        self.inputs = inputs
        self.outputs = outputs

    def run(self) -> None:
        """Runs the loaded function once."""
        self._call.invoke()

    def result(self, index: int) -> Array:
        """Returns an output of the last run; a dynamic output has the shape that the run computed."""
        array = self.outputs[index].array
        if index not in self._told:
            return array
        shape = tuple(map(int, self.outputs[self._told[index]].array))
        return array.reshape(-1)[: prod(shape)].reshape(shape)

    def measure(self, repeat: int, warm_ups: int = _WARM_UPS) -> CallTimes:
        """Measures `repeat` runs of the function, after `warm_ups` runs that are not measured."""
        times = CallTimes(defaultdict(list), [])
        for number in range(repeat + warm_ups):
            begin = time.perf_counter()
            self._call.invoke()
            call_s = time.perf_counter() - begin
            kernels = self._measure_kernels()
            if number >= warm_ups:
                times.calls.append(call_s)
                for name, seconds in kernels.items():
                    times.kernels[name].append(seconds)
        return times

    def _measure_kernels(self) -> dict[str, float]:
        with record() as recording:
            self._call.invoke()
        found: dict[str, float] = defaultdict(float)
        for span in recording.spans:
            if span.kind is SpanKind.TASK:
                found[span.name] += span.duration_ns / 1e9
        return found


@contextmanager
def load_call(
    byte_code: Blob,
    function: Function,
    assets: Sequence[Asset] = (),
    allow_native_assets: bool = False,
) -> Iterator[DeviceCall]:
    """Opens the reference vendor's device, and loads a function of a byte code module onto the device."""
    companions_first = sorted(assets, key=lambda asset: not asset.companion_path)
    named = [(asset.name, MemBuffer.from_blob(asset.blob)) for asset in companions_first]
    options = {"allow_native_assets": "true"} if allow_native_assets else {}
    with Session(
        DISPATCH, environment_options=EnvironmentOptions(), options=options, assets=named
    ) as session:
        inputs = [GuardedTensor(tensor_type) for tensor_type in function.inputs]
        outputs = [GuardedTensor(tensor_type) for tensor_type in function.outputs]
        module = MemBuffer.from_blob(byte_code)
        with session.open_call(module, function.name, function.inputs, function.outputs) as call:
            for index, memory in enumerate(inputs):
                call.bind_input(index, memory.buffer)
            for index, memory in enumerate(outputs):
                call.bind_output(index, memory.buffer)
            yield DeviceCall(call, function, inputs, outputs)


def load_kernel(
    text: str,
    entry: str,
    inputs: Sequence[RankedTensorType],
    outputs: Sequence[RankedTensorType],
    num_items: Sequence[int],
    group: Sequence[int] | None = None,
) -> AbstractContextManager[DeviceCall]:
    """Loads a kernel that belongs to no op; the kernel's arguments are the inputs, then the outputs.

    Args:
      text: Source code of the program, in OpenCL C.
      entry: Name of the kernel.
      inputs: Types of the inputs.
      outputs: Types of the outputs.
      num_items: Number of work items for each launch; the kernel is launched once for each number, in this order.
      group: Number of work items in a work group, for each dimension; None lets the driver choose.
    """
    arguments = [Argument(ArgumentKind.INPUT, index) for index in range(len(inputs))]
    arguments += [Argument(ArgumentKind.OUTPUT, index) for index in range(len(outputs))]
    tasks = [KernelTask(entry, 0, entry, arguments, [number], group) for number in num_items]
    function = Function(entry, inputs, outputs, tasks)
    executable = Executable(SOC_MODELS[0].name, [function], [Program(text, ())], [])
    return load_call(write_executable(executable), function)


@contextmanager
def quiet() -> Iterator[None]:
    """Discards the output of `printf` in kernels, since an earlier run has already printed the same output."""
    before = os.dup(1)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)
