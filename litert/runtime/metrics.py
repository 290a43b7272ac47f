"""The cost of a model's runs.

Host and vendor measure the whole runs, each op, and each NPU call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median

from dispatch.api import Metric
from dispatch.call import Call
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind

OP_DETAIL_LEVEL = 2
"""From this level of detail on, each op is measured, not only the NPU calls."""


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """Measurements of one NPU call during a collection.

    Attributes:
      name: Name of the function in the byte code.
      times_s: Time of each run as the host measured it, in seconds; a call in a loop may run more
        often than the model.
      vendor: The vendor's own measurements; empty if the vendor has none.
    """

    name: str
    times_s: Sequence[float]
    vendor: Sequence[Metric]


@dataclass(frozen=True, slots=True)
class Spread:
    """The time of one activity in several runs of a model.

    Attributes:
      runs: Number of runs of the model.
      total_s: Total time of all runs, in seconds.
      squares: Sum of the squares of the times of all runs, in square seconds.
      samples_s: Times of single runs in seconds: of all runs, or of every second, fourth, ... if
        there are many.
    """

    runs: int = 0
    total_s: float = 0.0
    squares: float = 0.0
    samples_s: Sequence[float] = ()

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Spread:
        """Makes the spread of an activity from its time in each run."""
        squares = sum(time_s * time_s for time_s in times_s)
        return cls(len(times_s), sum(times_s), squares, times_s)

    def __add__(self, other: Spread) -> Spread:
        """Returns the spread over the runs of both."""
        return Spread(
            self.runs + other.runs,
            self.total_s + other.total_s,
            self.squares + other.squares,
            [*self.samples_s, *other.samples_s],
        )

    def among(self, runs: int) -> Spread:
        """Returns the spread over this number of runs: the activity took no time in the additional runs."""
        missing = round(len(self.samples_s) * (runs / self.runs - 1)) if self.runs else 0
        return Spread(runs, self.total_s, self.squares, [*self.samples_s, *[0.0] * missing])

    @property
    def mean_s(self) -> float:
        """Average time in a run of the model, in seconds; 0 without runs."""
        return self.total_s / self.runs if self.runs else 0.0

    @property
    def median_s(self) -> float:
        """Median time of a run, in seconds; 0 without runs."""
        return median(self.samples_s) if self.samples_s else 0.0

    @property
    def deviation_s(self) -> float:
        """Standard deviation of single runs, in seconds."""
        if not self.runs:
            return 0.0
        return sqrt(max(0.0, self.squares / self.runs - self.mean_s**2))


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An op of the model that was loaded.

    Attributes:
      subgraph, index: Position of the op in the file; -1 if the file was compiled at load and lacks
        the op.
      name: Name in the schema, or name of a custom op.
      output: Name of the op's first output tensor.
    """

    subgraph: int
    index: int
    name: str
    output: str


@dataclass(frozen=True, slots=True)
class OpMetrics:
    """The time of one op, or of several ops that cannot be told apart.

    Attributes:
      kind: CALL for an NPU call, CPU_OP for other ops; TASK, TRANSFER, WAIT, HOST or INVOKE
        for a part of a call.
      name: Name of an NPU call's function, or of a part of the call; otherwise the name of the ops
        or the delegate.
      ops: Ops of the row: several if a delegate runs them; empty for a part of a call.
      parent: Index of the row that contains this row: control flow that runs a subgraph, a
        delegate's part, an NPU call; -1 if there is none.
      count: Number of runs of the op, in all runs of the model.
      times: Time in a run of the model, over all runs of the op in it.
      operators: XNNPACK's names of the operators that ran.
    """

    kind: SpanKind
    name: str
    ops: Sequence[OpPlace]
    parent: int
    count: int
    times: Spread
    operators: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The cost of a model's runs during a collection.

    Attributes:
      run_times_s: Time of each successful run that the caller waited for, in seconds.
      calls: Measurements of each NPU call, in the file's order.
      ops: With a level of detail of 2 or more, the ops that ran; each row comes after the row that
        contains it.
      problems: Sentences about what could not be measured, and why.
    """

    run_times_s: Sequence[float]
    calls: Sequence[CallMetrics]
    ops: Sequence[OpMetrics] = ()
    problems: Sequence[str] = ()


class CallMeter:
    """Measures one call's runs; a context manager around each run."""

    __slots__ = ("_call", "_detail_level", "_start", "_times_s", "_vendor", "_vendor_measures")

    def __init__(self, call: Call, detail_level: int) -> None:
        """Starts a measurement; a higher level of detail is finer and may be slower.

        A vendor may have no metrics.
        """
        self._times_s: list[float] = []
        self._vendor: list[Metric] = []
        self._detail_level = detail_level
        self._start = 0.0
        self.follow(call)

    def follow(self, call: Call) -> None:
        """Continues with a call that replaces the former call; the errors are those of the start."""
        self._call = call
        self._vendor_measures = False
        try:
            call.start_metrics(self._detail_level)
            self._vendor_measures = True
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise

    def collect(self) -> None:
        """Collects the vendor's measurements, before the call is closed, or at the end."""
        if self._vendor_measures:
            self._vendor_measures = False
            self._vendor += self._call.stop_metrics()

    def forget(self) -> None:
        """Drops the host's times so far."""
        self._times_s.clear()

    def stop(self) -> CallMetrics:
        """Ends the measurement and returns the results."""
        self.collect()
        return CallMetrics(self._call.function_name, self._times_s, self._vendor)

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._times_s.append(time.perf_counter() - self._start)
