"""How long runs and their tasks take."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

import pyopencl as cl

from dispatch.api import Metric
from vendor_reference.executable.executable import CpuTask, KernelTask


@dataclass(frozen=True, slots=True)
class HostTime:
    """When a CPU layer ran, as OpenCL's events have it: nanoseconds."""

    start: int
    end: int

    @property
    def profile(self) -> HostTime:
        """Its times."""
        return self


class Stopwatch:
    """The times of runs since it was made; `has_tasks` says that events have times, those of a profiling queue."""

    def __init__(self, tasks: Sequence[KernelTask | CpuTask]) -> None:
        """Starts at nothing; `tasks` are those to measure one by one, or none."""
        self.has_tasks = bool(tasks)
        self._tasks = tasks
        self._task_ns = [0] * len(tasks)
        self._runs = 0
        self._total_s = 0.0
        self._best_s = inf

    def add(
        self, time_s: float, launched: Collection[int], events: Sequence[cl.Event | HostTime]
    ) -> None:
        """Adds a run that has ended, with the tasks that had something to do, and the event of each."""
        self._runs += 1
        self._total_s += time_s
        self._best_s = min(self._best_s, time_s)
        if self.has_tasks:
            for index, event in zip(launched, events, strict=True):
                self._task_ns[index] += event.profile.end - event.profile.start

    def metrics(self) -> Sequence[Metric]:
        """The runs that ended well, how long they took as their caller sees it, and the tasks."""
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
