"""Runs of a model on buffers of its own, and how long they take."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litert.core.option import Flag

from .array_files import InputArray

if TYPE_CHECKING:
    from litert.compiled_model import CompiledModel

    from .pictures import Array


WARM_UP = Flag("warm_up", 10, "Runs before it is measured.", least=0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of single runs: how they spread.

    Attributes:
      runs: how many were measured.
      mean_s: seconds of a run in the mean.
      deviation_s: standard deviation.
      min_s: the fastest run.
      p50_s: the median.
      p90_s: 90 of 100 runs are as fast or faster.
      p99_s: 99 of 100 runs are as fast or faster.
      max_s: the slowest run.
    """

    runs: int
    mean_s: float
    deviation_s: float
    min_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Timing:
        """Summarizes one run or more."""
        import numpy as np

        p50, p90, p99 = np.percentile(times_s, [50, 90, 99])
        mean, deviation = np.mean(times_s), np.std(times_s)
        numbers = (mean, deviation, min(times_s), p50, p90, p99, max(times_s))
        return cls(len(times_s), *map(float, numbers))

    def __str__(self) -> str:
        numbers = (self.p50_s, self.p90_s, self.p99_s, self.min_s, self.mean_s, self.deviation_s)
        p50, p90, p99, least, mean, deviation = (f"{number * 1e3:.3f}" for number in numbers)
        return f"median {p50} ms, 90% {p90}, 99% {p99}, least {least}, mean {mean} +- {deviation}"


class SignatureRuns:
    """A signature of a loaded model, with inputs and outputs in its own buffers.

    Attributes:
      inputs: by name.
      model: that it is of.
    """

    def __init__(
        self, model: CompiledModel, signature: str, inputs: Mapping[str, InputArray]
    ) -> None:
        """Takes the inputs by name, and makes the buffers."""
        self.inputs = {name: given.value for name, given in inputs.items()}
        self.model = model
        self._signature = signature
        self._index = model.get_signature_index(signature)
        for name, value in self.inputs.items():
            model.resize_input_tensor_by_name(signature, name, value.shape, strict=False)
        self._inputs = model.create_input_buffers(self._index)
        self._outputs = model.create_output_buffers(self._index)
        for value, buffer in zip(self.inputs.values(), self._inputs, strict=True):
            buffer.write(value)

    def run(self) -> None:
        """Runs it once."""
        self.model.run_by_index(self._index, self._inputs, self._outputs)

    def outputs(self) -> Mapping[str, Array]:
        """Those of a run more, by name, with the shapes that it gives them."""
        return self.model.run(self.inputs, self._signature)


def machine_text() -> str:
    """`x86_64, Linux, Python 3.12.1`."""
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def measure_s(run: Callable[[], None]) -> float:
    """How many seconds a run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
