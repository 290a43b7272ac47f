"""Runs a model with newly allocated buffers, and measures the runs."""

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


WARM_UP = Flag("warm_up", 10, "Number of runs before the measurement.", least=0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Statistics of the times of single runs, in seconds.

    Attributes:
      runs: Number of measured runs.
      mean_s: Mean time of a run, in seconds.
      deviation_s: Standard deviation, in seconds.
      min_s: Time of the fastest run, in seconds.
      p50_s: Median time of a run, in seconds.
      p90_s: 90th percentile of the times, in seconds: 90 % of the runs are at least as fast.
      p99_s: 99th percentile of the times, in seconds: 99 % of the runs are at least as fast.
      max_s: Time of the slowest run, in seconds.
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
        """Summarizes the times of one or more runs."""
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
    """A signature of a loaded model, with buffers for its inputs and outputs.

    Attributes:
      inputs: Values of the inputs, by name.
      model: The loaded model.
    """

    def __init__(
        self, model: CompiledModel, signature: str, inputs: Mapping[str, InputArray]
    ) -> None:
        """Creates the buffers, and writes the given inputs into the input buffers."""
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
        """Runs the signature once."""
        self.model.run_by_index(self._index, self._inputs, self._outputs)

    def outputs(self) -> Mapping[str, Array]:
        """Runs the signature once more, and returns its outputs by name."""
        return self.model.run(self.inputs, self._signature)


def machine_text() -> str:
    """Returns a text about this machine, such as `x86_64, Linux, Python 3.12.1`."""
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def measure_s(run: Callable[[], None]) -> float:
    """Returns the time of one run, in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
