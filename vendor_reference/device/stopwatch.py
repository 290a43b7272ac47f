"""Measures the times of runs and their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from dispatch.api import Metric
from litert.core.tracing import Span, SpanKind
from vendor_reference.executable.executable import Task

_MOST_LATER = 100
"""Number of runs whose OpenCL events are kept."""


class Stopwatch:
    """Collects the times of runs; `has_tasks` is true if tasks are measured, too."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Creates a stopwatch without measured times.

        `tasks` are the tasks that are measured individually; if `tasks` is empty, only whole runs are measured.
        """
        self.has_tasks = bool(tasks)
        self._tasks = tasks
        self._task_ns = [0] * len(tasks)
        self._runs = 0
        self._total_s = 0.0
        self._best_s = inf
        self._later: list[Callable[[], Iterable[Span]]] = []

    def add(self, time_s: float, spans: Callable[[], Iterable[Span]]) -> None:
        """Adds a finished run; most device times are read later, since reading them is slow."""
        self._runs += 1
        self._total_s += time_s
        self._best_s = min(self._best_s, time_s)
        if self.has_tasks:
            self._later.append(spans)
            if len(self._later) == _MOST_LATER:
                self._add_tasks()

    def metrics(self) -> Sequence[Metric]:
        """Returns the number and durations of the successful runs, and the times of their tasks."""
        self._add_tasks()
        runs = max(self._runs, 1)
        found = [
            Metric("runs", self._runs),
            Metric("mean_us", self._total_s / runs * 1e6),
            Metric("best_us", self._best_s * 1e6 if self._runs else 0.0),
        ]
        for index, (task, time_ns) in enumerate(zip(self._tasks, self._task_ns, strict=True)):
            name = f"task {index}, kernel '{task.entry}' of op '{task.op_name}', mean_us"
            found.append(Metric(name, time_ns / runs / 1e3))
        return found

    def _add_tasks(self) -> None:
        for spans in self._later:
            for span in spans():
                if span.kind is SpanKind.TASK:
                    self._task_ns[int(span.details["task"])] += span.duration_ns
        self._later.clear()
