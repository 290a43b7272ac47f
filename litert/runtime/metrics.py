"""The times of whole runs of a model, of its ops, and of its NPU calls, as measured by the host and the vendor."""

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
"""Lowest level of detail at which all ops are measured, not only NPU calls."""


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """Measurements of one NPU call between `start_metrics_collection` and `stop_metrics_collection`.

    Attributes:
      name: Name of the function that the call runs; the function is in the byte code.
      times_s: Time of each run of the call, in seconds, as measured by the host. If the call is part of a loop, it
        may run more often than the model.
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
      squares: Sum of the squared times of all runs, in square seconds.
      samples_s: Times of single runs, in seconds. If there are many runs, the list has only every second run,
        every fourth run, and so on.
    """

    runs: int = 0
    total_s: float = 0.0
    squares: float = 0.0
    samples_s: Sequence[float] = ()

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Spread:
        """Returns the statistics of an activity, given its time in each run."""
        squares = sum(time_s * time_s for time_s in times_s)
        return cls(len(times_s), sum(times_s), squares, times_s)

    def __add__(self, other: Spread) -> Spread:
        """Returns the statistics over the runs of both objects."""
        return Spread(
            self.runs + other.runs,
            self.total_s + other.total_s,
            self.squares + other.squares,
            [*self.samples_s, *other.samples_s],
        )

    def among(self, runs: int) -> Spread:
        """Returns the statistics over more runs; in the additional runs, the activity counts as taking no time."""
        missing = round(len(self.samples_s) * (runs / self.runs - 1)) if self.runs else 0
        return Spread(runs, self.total_s, self.squares, [*self.samples_s, *[0.0] * missing])

    @property
    def mean_s(self) -> float:
        """Average time per run of the model, in seconds; 0 if there are no runs."""
        return self.total_s / self.runs if self.runs else 0.0

    @property
    def median_s(self) -> float:
        """Median time per run, in seconds; 0 if there are no runs."""
        return median(self.samples_s) if self.samples_s else 0.0

    @property
    def deviation_s(self) -> float:
        """Standard deviation of the times of single runs, in seconds."""
        if not self.runs:
            return 0.0
        return sqrt(max(0.0, self.squares / self.runs - self.mean_s**2))


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An op of the model that was loaded.

    Attributes:
      subgraph, index: Place of the op in the file; -1 if the model was compiled at load and the file does not
        contain the op.
      name: Name of the op in the schema, or name of the custom op.
      output: Name of the op's first output tensor.
    """

    subgraph: int
    index: int
    name: str
    output: str


@dataclass(frozen=True, slots=True)
class OpMetrics:
    """The time of one op, of several ops that cannot be measured separately, or of a part of an NPU call.

    Attributes:
      kind: CALL for an NPU call, CPU_OP for other ops. For a part of an NPU call: TASK (a task of the device),
        TRANSFER (a copy to or from the device), WAIT (waiting for the device or a lock), HOST (the host's own
        work) or INVOKE (the time in the vendor's function that belongs to no other part).
      name: Name of the measured item: the function of an NPU call, a part of the call, the ops, or the delegate.
        A delegate, such as XNNPACK, runs several ops together.
      ops: Ops that the entry describes; several ops, if a delegate runs them together. For a part of an NPU call,
        the list is empty.
      parent: Index in `RunMetrics.ops` of the entry that contains this entry: a control flow op, the ops of a
        delegate, or an NPU call. -1 if no entry contains it.
      count: Number of times that the op ran, in all runs of the model.
      times: Statistics of the time per run of the model. If the op ran several times in one run of the model,
        its times in this run are added.
      operators: XNNPACK's names for the operators that ran.
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
    """Measurements of a model's runs between `start_metrics_collection` and `stop_metrics_collection`.

    Attributes:
      run_times_s: Time of each successful run in seconds, except for warm-up runs, and for asynchronous runs that
        the vendor's driver performs.
      calls: Measurements of each NPU call, in the order of the calls in the file.
      ops: Measurements of the ops that ran, if the level of detail is 2 or more. Each entry comes after its parent
        (see `OpMetrics.parent`).
      problems: Sentences that say which measurements are missing, and why.
    """

    run_times_s: Sequence[float]
    calls: Sequence[CallMetrics]
    ops: Sequence[OpMetrics] = ()
    problems: Sequence[str] = ()


class CallMeter:
    """Measures the runs of one NPU call; used as a context manager around each run."""

    __slots__ = ("_call", "_detail_level", "_start", "_times_s", "_vendor", "_vendor_measures")

    def __init__(self, call: Call, detail_level: int) -> None:
        """Starts a measurement; with a higher level of detail, more is measured, but runs may be slower.

        If the vendor has no metrics, only the host measures.
        """
        self._times_s: list[float] = []
        self._vendor: list[Metric] = []
        self._detail_level = detail_level
        self._start = 0.0
        self.follow(call)

    def follow(self, call: Call) -> None:
        """Measures this call from now on, in place of the call that was measured before."""
        self._call = call
        self._vendor_measures = False
        try:
            call.start_metrics(self._detail_level)
            self._vendor_measures = True
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise

    def collect(self) -> None:
        """Collects the vendor's measurements before the call is closed or the measurement ends."""
        if self._vendor_measures:
            self._vendor_measures = False
            self._vendor += self._call.stop_metrics()

    def forget(self) -> None:
        """Discards the times that the host has measured so far."""
        self._times_s.clear()

    def stop(self) -> CallMetrics:
        """Ends the measurement and returns the results."""
        self.collect()
        return CallMetrics(self._call.function_name, self._times_s, self._vendor)

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._times_s.append(time.perf_counter() - self._start)
