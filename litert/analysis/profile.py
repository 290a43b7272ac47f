"""The time of a model's runs as rows of a table: rows for measured parts, and rows for the remaining time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from litert.core.tracing import SpanKind
from litert.runtime.metrics import CallMetrics, OpMetrics, OpPlace, RunMetrics, Spread

REST = "rest"
"""Kind and name of rows for time that no other row contains."""

_LEAST_S = 1e-9
"""Smallest time that gets a row `rest`, in seconds per model run. Shorter times without a row are omitted."""

_KINDS = {SpanKind.CALL: "npu_call"}


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """The time that one part of a model's runs took.

    Attributes:
      kind: npu_call, cpu_op or rest; for a part of an NPU call, task, transfer, wait, host or invoke.
      name: Name of the function of an NPU call, name of a part of the call, names of ops, or name of the delegate
        that runs the ops.
      ops: Ops in the file that the row stands for; several if their times cannot be separated.
      parent: Index of the row that contains this row; -1 if the row is a direct part of the run.
      mean_s: Mean time per model run, in seconds, summed over all times that the part ran in the model run.
      median_s: Median time per model run, in seconds. The means of parts add up to the mean of the whole, but the
        medians do not.
      deviation_s: Standard deviation over single runs, in seconds.
        Median and deviation are None in rows for remaining time, if there are too many runs to keep the time of
        each run.
      share: Share of the time of the model run, from 0 to 1.
      runs_per_run: Number of times that the part ran in one model run.
      details: Further details of the row: the XNNPACK operators that ran, or the vendor's own measurements.
    """

    kind: str
    name: str
    ops: Sequence[OpPlace]
    parent: int
    mean_s: float
    median_s: float | None
    deviation_s: float | None
    share: float
    runs_per_run: float
    details: Mapping[str, bool | int | float | str] = field(default_factory=dict)


def profile_rows(collections: Sequence[RunMetrics]) -> list[ProfileRow]:
    """Combines several collections of metrics of one model, and returns the rows for them.

    Returns:
      The rows, longest first; each row is followed by its parts. The times of rows without a parent add up to the
      time of the run, and the times of a row's parts add up to the row's time, including rows for remaining time.
      Since clocks differ, the times of the parts may add up to more than the time of the whole; the remaining time
      is then 0.
    """
    runs = Spread.of([time_s for c in collections for time_s in c.run_times_s])
    root = _Part.of(collections, runs)
    rows: list[ProfileRow] = []
    root.write(-1, runs, rows)
    return rows


class _Part:
    """A row that is being collected, with its parts."""

    def __init__(self) -> None:
        self.parts: dict[object, _Part] = {}
        self.op: OpMetrics | None = None
        self.count = 0
        self.times = Spread()
        self.details: dict[str, bool | int | float | str] = {}

    @classmethod
    def of(cls, collections: Sequence[RunMetrics], runs: Spread) -> _Part:
        """The whole run."""
        root = cls()
        root.times = runs
        for collection in collections:
            parts: list[_Part] = []
            for op in collection.ops or _calls_alone(collection):
                parent = parts[op.parent] if op.parent >= 0 else root
                part = parent.parts.setdefault((op.kind, op.name, *op.ops), cls())
                part.add(op)
                parts.append(part)
            calls = [p for p in parts if p.op is not None and p.op.kind is SpanKind.CALL]
            for part in calls:
                part.details.update(_vendor_details(part.op, collection.calls))
        return root

    def add(self, op: OpMetrics) -> None:
        """Adds the measurements of one collection."""
        self.op = op
        self.count += op.count
        self.times += op.times
        if op.operators:
            self.details["operators"] = ", ".join(op.operators)

    def write(self, index: int, runs: Spread, rows: list[ProfileRow]) -> None:
        """Adds the rows of the parts; `index` is this row's own index."""
        rest = self._rest() if self.parts or index < 0 else Spread()
        parts = sorted(self.parts.values(), key=lambda part: -part.times.total_s)
        is_rest_written = index >= 0 and rest.total_s < _LEAST_S * self.times.runs
        for part in [*parts, None]:
            if not is_rest_written and (part is None or part.times.total_s < rest.total_s):
                rows.append(_rest_row(index, rest, runs))
                is_rest_written = True
            if part is not None:
                rows.append(part.row(index, runs))
                part.write(len(rows) - 1, runs, rows)

    def _rest(self) -> Spread:
        """Computes the remaining time, for single runs too if all parts have the times of all runs."""
        parts = [part.times for part in self.parts.values()]
        rest_s = max(0.0, self.times.total_s - sum(part.total_s for part in parts))
        samples = [self.times.samples_s, *(part.samples_s for part in parts)]
        if any(len(times_s) != self.times.runs for times_s in samples):
            return Spread(self.times.runs, rest_s)
        rests = Spread.of(
            [max(0.0, whole - sum(inside)) for whole, *inside in zip(*samples, strict=True)]
        )
        return replace(rests, total_s=rest_s)

    def row(self, parent: int, runs: Spread) -> ProfileRow:
        """Makes the row for the report."""
        assert self.op is not None
        times = self.times.among(runs.runs)
        return ProfileRow(
            _KINDS.get(self.op.kind, self.op.kind.value),
            self.op.name,
            self.op.ops,
            parent,
            times.mean_s,
            times.median_s,
            times.deviation_s,
            times.total_s / runs.total_s if runs.total_s else 0.0,
            self.count / runs.runs if runs.runs else 0.0,
            self.details,
        )


def _calls_alone(collection: RunMetrics) -> Iterator[OpMetrics]:
    """Makes rows of the NPU calls, if ops could not be measured."""
    for call in collection.calls:
        times = Spread.of(call.times_s)
        yield OpMetrics(SpanKind.CALL, call.name, (), -1, len(call.times_s), times)


def _rest_row(parent: int, rest: Spread, runs: Spread) -> ProfileRow:
    mean_s = rest.total_s / runs.runs if runs.runs else 0.0
    share = rest.total_s / runs.total_s if runs.total_s else 0.0
    median_s = rest.median_s if rest.samples_s else None
    deviation_s = rest.deviation_s if rest.samples_s else None
    return ProfileRow(REST, REST, (), parent, mean_s, median_s, deviation_s, share, 1)


def _vendor_details(
    op: OpMetrics | None, calls: Sequence[CallMetrics]
) -> Iterator[tuple[str, bool | int | float | str]]:
    """Returns the vendor's own measurements of a call, from the last collection that has them."""
    for call in calls:
        if op is not None and call.name == op.name:
            yield from ((metric.name, metric.value) for metric in call.vendor)
