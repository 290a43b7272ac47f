"""Measures the firmware on this device with different vector, block and unit sizes, for `litert-npu tune`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from statistics import fmean, median
from typing import Any

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions
from litert.core.progress import told
from litert.model.atomic_file import temporary_folder
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model
from vendor_reference.authoring.device_call import DeviceCall, load_call
from vendor_reference.authoring.local_sizes import is_clearly_better
from vendor_reference.device.firmware_choice import candidates
from vendor_reference.device.opencl_device import OpenClDevice
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.executable import Function
from vendor_reference.firmware.program import FirmwareTuning

_ROUNDS = 25
_REPEAT = 3
_LIMIT = 1e-4
"""Largest allowed difference between two results, as a fraction of the largest magnitude."""

Shape = tuple[int, ...]
_ONCE = {"padding": "SAME", "stride_w": 1, "stride_h": 1}

LAYERS: Mapping[str, tuple[str, Shape, Shape, Shape, Mapping[str, Any]]] = {
    "1 x 1 convolution, 12288 pixels, 32 to 32 channels":
        ("CONV_2D", (1, 96, 128, 32), (32, 1, 1, 32), (1, 96, 128, 32), _ONCE),
    "3 x 3 convolution, 784 pixels, 64 to 64 channels":
        ("CONV_2D", (1, 28, 28, 64), (64, 3, 3, 64), (1, 28, 28, 64), _ONCE),
    "depthwise 3 x 3 convolution, 3136 pixels, 64 channels":
        ("DEPTHWISE_CONV_2D", (1, 56, 56, 64), (1, 3, 3, 64), (1, 56, 56, 64), _ONCE),
    "product of 768 x 256 and 256 x 512": ("FULLY_CONNECTED", (768, 256), (512, 256), (768, 512), {}),
    "product of 16 x 1024 and 1024 x 1024":
        ("FULLY_CONNECTED", (16, 1024), (1024, 1024), (16, 1024), {}),
}  # fmt: skip
"""The layers to measure; each has an op, the shapes of operand, weights and result, and the op's options."""


@dataclass(frozen=True, slots=True)
class TriedTuning:
    """A tuning of the firmware, and the measured time of each layer with this tuning.

    Attributes:
      width: Number of floats in a vector.
      rows: Number of rows of a matrix product that a worker computes at once.
      unit_operations: Minimum number of operations that the firmware assigns to a worker at once.
      layers_us: Median time of each layer, by the layer's title, in microseconds.
      relative: Geometric mean of the layers' times, relative to their times with the default tuning.
      problem: Reason why the tuning cannot be used; "" if the tuning can be used.
    """

    width: int
    rows: int
    unit_operations: int
    layers_us: Mapping[str, float]
    relative: float
    problem: str = ""


def tune_firmware(device: OpenClDevice) -> tuple[FirmwareTuning, Sequence[TriedTuning]]:
    """Measures firmware tunings on a device; functions that are loaded later use firmware with the best tuning.

    Returns:
      The best tuning, which is the default unless another tuning is clearly faster; and all measured tunings, with
      the default first.

    Raises:
      LiteRtError: If the device reports an error.
    """
    tunings = candidates(device.default_tuning, device.info)
    with _compiled_layers() as layers, ExitStack() as stack:
        calls = []
        for tuning in told("build", tunings):
            device.firmware_tuning = tuning
            loads = [load_call(*layer) for layer in layers]
            calls.append([_fill(stack.enter_context(load)) for load in loads])
        problems = [_compare(made, calls[0]) for made in calls]
        times = _measure(calls)
    means = [_geometric_means(of_layers) for of_layers in times]
    tried = [
        _tried(tuning, of_layers, median(mean) / median(means[0]), problem)
        for tuning, of_layers, mean, problem in zip(tunings, times, means, problems, strict=True)
    ]
    right = [index for index, problem in enumerate(problems) if not problem]
    best = min(right, key=lambda index: tried[index].relative)
    if not is_clearly_better(means[best], means[0]):
        best = 0
    device.firmware_tuning = tunings[best]
    return tunings[best], tried


def _tried(
    tuning: FirmwareTuning, times: Sequence[Sequence[float]], relative: float, problem: str
) -> TriedTuning:
    layers_us = {title: median(seconds) * 1e6 for title, seconds in zip(LAYERS, times, strict=True)}
    numbers = tuning.width, tuning.rows, tuning.unit_operations
    return TriedTuning(*numbers, layers_us, relative, problem)


@contextmanager
def _compiled_layers() -> Iterator[Sequence[tuple[Blob, Function]]]:
    """Yields the byte code and the function of each layer."""
    options = ApplyOptions(
        "Reference", compiler=CompilerOptions(vendor_options={"reference_ops": "all"})
    )
    with temporary_folder() as folder, ExitStack() as stack:
        found = []
        for number, layer in enumerate(LAYERS.values()):
            path = os.path.join(folder, str(number))
            write_model(_model(*layer), f"{path}.tflite")
            apply_plugin(f"{path}.tflite", f"{path}_npu.tflite", options)
            compiled = stack.enter_context(read_model(f"{path}_npu.tflite"))
            blob = compiled.byte_code[0].blob
            found.append((blob, read_executable(blob.view).functions[0]))
        yield found


def _model(
    op: str, operand: Shape, weights: Shape, result: Shape, options: Mapping[str, Any]
) -> Model:
    b = ModelBuilder()
    numbers = np.random.default_rng(0).normal(size=weights).astype(np.float32)
    bias = np.zeros(result[-1], np.float32)
    tensors = [b.input("x", "float32", operand), b.constant("w", numbers), b.constant("b", bias)]
    b.output(b.op(op, tensors, [("y", "float32", result)], **options))
    return b.build()


def _fill(call: DeviceCall) -> DeviceCall:
    """Runs a call once, and returns the call with its results."""
    array = call.inputs[0].array
    array[...] = np.random.default_rng(1).normal(size=array.shape)
    call.run()
    return call


def _compare(calls: Sequence[DeviceCall], wanted: Sequence[DeviceCall]) -> str:
    """Returns the difference between results and the wanted results as text; "" if they agree."""
    for title, call, other in zip(LAYERS, calls, wanted, strict=True):
        expected = other.result(0)
        difference = np.abs(call.result(0) - expected).max() / np.abs(expected).max()
        if not difference <= _LIMIT:
            return (
                f"{title}: the result differs by {difference:.1e} from the default tuning's result"
            )
    return ""


def _measure(calls: Sequence[Sequence[DeviceCall]]) -> list[list[list[float]]]:
    """Returns the seconds of each call in each round: the calls that are compared run in turn."""
    times: list[list[list[float]]] = [[[] for _ in LAYERS] for _ in calls]
    for number in told("measure", range(_ROUNDS)):
        for layer in range(len(LAYERS)):
            # The order changes from round to round, since each call finds the caches as the call
            # before it left them.
            for index in range(len(calls)):
                place = (index + number) % len(calls)
                times[place][layer].append(_time(calls[place][layer]))
    return times


def _time(call: DeviceCall) -> float:
    """Returns the shortest time of some runs."""
    marks = [time.perf_counter()]
    for _ in range(_REPEAT):
        call.run()
        marks.append(time.perf_counter())
    return min(end - begin for begin, end in pairwise(marks))


def _geometric_means(times: Sequence[Sequence[float]]) -> list[float]:
    """Returns the geometric mean over all layers, for each round."""
    return [exp(fmean(map(log, of_round))) for of_round in zip(*times, strict=True)]
