"""What runs of a model cost: the whole, each op, and each NPU call, measured around it and by the vendor."""

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
"""From this level of detail on, each op is measured, and not the NPU calls alone."""


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """One NPU call, from the start of a collection to its end.

    Attributes:
      name: of the function in the byte code.
      times_s: seconds of each run as the host sees it; more runs than the model's, in a loop's body.
      vendor: the vendor's own measurements; empty where it has none.
    """

    name: str
    times_s: Sequence[float]
    vendor: Sequence[Metric]


@dataclass(frozen=True, slots=True)
class Spread:
    """How long something took in each of several runs of a model.

    Attributes:
      runs: of the model.
      total_s: seconds, of all runs.
      squares: the sum of the squares of each run's seconds.
      samples_s: seconds of single runs: of all, or of every second, fourth, ... where there are many.
    """

    runs: int = 0
    total_s: float = 0.0
    squares: float = 0.0
    samples_s: Sequence[float] = ()

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Spread:
        """The spread of something that took so long in each run."""
        squares = sum(time_s * time_s for time_s in times_s)
        return cls(len(times_s), sum(times_s), squares, times_s)

    def __add__(self, other: Spread) -> Spread:
        """The spread of all runs of both."""
        return Spread(
            self.runs + other.runs,
            self.total_s + other.total_s,
            self.squares + other.squares,
            [*self.samples_s, *other.samples_s],
        )

    def among(self, runs: int) -> Spread:
        """The same in so many runs: in those that it does not know it took no time."""
        missing = round(len(self.samples_s) * (runs / self.runs - 1)) if self.runs else 0
        return Spread(runs, self.total_s, self.squares, [*self.samples_s, *[0.0] * missing])

    @property
    def mean_s(self) -> float:
        """Seconds in a run of the model; 0 without runs."""
        return self.total_s / self.runs if self.runs else 0.0

    @property
    def median_s(self) -> float:
        """Seconds that half of the runs took at most; 0 without runs."""
        return median(self.samples_s) if self.samples_s else 0.0

    @property
    def deviation_s(self) -> float:
        """The standard deviation of single runs, in seconds."""
        if not self.runs:
            return 0.0
        return sqrt(max(0.0, self.squares / self.runs - self.mean_s**2))


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An op of the model that was loaded.

    Attributes:
      subgraph, index: its place in the file; -1 in a file that was compiled when it was loaded, and has it not.
      name: in the schema, or that of a custom op.
      output: its first output tensor's name.
    """

    subgraph: int
    index: int
    name: str
    output: str


@dataclass(frozen=True, slots=True)
class OpMetrics:
    """What one op took, or several that cannot be told apart.

    Attributes:
      kind: CALL for an NPU call, CPU_OP for other ops; TASK, TRANSFER, WAIT, HOST or INVOKE for a part of a call.
      name: of an NPU call's function, or of a part of it; else the ops' or the delegate's.
      ops: several where a delegate runs them; none for a part of a call.
      parent: the index of what it is a part of: control flow that runs its subgraph, a delegate's part, an NPU
        call; -1 for none.
      count: how often it ran, in all runs of the model.
      times: in a run of the model, all its own runs together.
      operators: XNNPACK's names for what ran.
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
    """What runs of a model took, from the start of a collection to its end.

    Attributes:
      run_times_s: seconds of each run that somebody waited for, and that did not fail.
      calls: one for each NPU call, in the file's order.
      ops: at a level of detail of 2 or more, the ops that ran; each after the op that it is a part of.
      problems: what was not measured, and why.
    """

    run_times_s: Sequence[float]
    calls: Sequence[CallMetrics]
    ops: Sequence[OpMetrics] = ()
    problems: Sequence[str] = ()


class CallMeter:
    """Measures one call's runs; a context manager around each."""

    __slots__ = ("_call", "_detail_level", "_start", "_times_s", "_vendor", "_vendor_measures")

    def __init__(self, call: Call, detail_level: int) -> None:
        """Starts; a higher level of detail is finer and may be slower. A vendor may have no metrics."""
        self._times_s: list[float] = []
        self._vendor: list[Metric] = []
        self._detail_level = detail_level
        self._start = 0.0
        self.follow(call)

    def follow(self, call: Call) -> None:
        """Goes on with a call that stands in place of the former; errors as when it started."""
        self._call = call
        self._vendor_measures = False
        try:
            call.start_metrics(self._detail_level)
            self._vendor_measures = True
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise

    def collect(self) -> None:
        """Takes what the vendor has measured, before the call is closed, or at the end."""
        if self._vendor_measures:
            self._vendor_measures = False
            self._vendor += self._call.stop_metrics()

    def forget(self) -> None:
        """Drops the host's times so far."""
        self._times_s.clear()

    def stop(self) -> CallMetrics:
        """Ends, with what was measured."""
        self.collect()
        return CallMetrics(self._call.function_name, self._times_s, self._vendor)

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._times_s.append(time.perf_counter() - self._start)
