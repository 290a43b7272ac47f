"""How long runs and their tasks take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import pyopencl as cl

from vendor_reference.executable.executable import CpuTask, KernelTask


@dataclass(frozen=True, slots=True)
class TaskTime:
    """How long a task took, from its start to its end on the device."""

    op_name: str
    entry: str
    mean_us: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of a function.

    Attributes:
      runs: how many ended well.
      mean_us, best_us: of a whole run, as its caller sees it; 0 without runs.
      tasks: in order, where they were asked for.
    """

    runs: int
    mean_us: float
    best_us: float
    tasks: Sequence[TaskTime]


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
    """The times of runs since it was made.

    Attributes:
      has_tasks: whether events have times, as those of a profiling queue do.
    """

    def __init__(self, tasks: Sequence[KernelTask | CpuTask]) -> None:
        """Starts at nothing; `tasks` are those to measure one by one, or none."""
        self.has_tasks = bool(tasks)
        self._tasks = tasks
        self._task_ns = [0] * len(tasks)
        self._runs = 0
        self._total_s = 0.0
        self._best_s = inf

    def add(
        self, time_s: float, launched: Sequence[int], events: Sequence[cl.Event | HostTime]
    ) -> None:
        """Adds a run that has ended, with the tasks that had something to do, and the event of each."""
        self._runs += 1
        self._total_s += time_s
        self._best_s = min(self._best_s, time_s)
        if self.has_tasks:
            for index, event in zip(launched, events, strict=True):
                self._task_ns[index] += event.profile.end - event.profile.start

    def measurement(self) -> Measurement:
        """All that was added."""
        runs = max(self._runs, 1)
        tasks = [
            TaskTime(task.op_name, task.entry, time_ns / runs / 1e3)
            for task, time_ns in zip(self._tasks, self._task_ns, strict=True)
        ]
        best_us = self._best_s * 1e6 if self._runs else 0.0
        return Measurement(self._runs, self._total_s / runs * 1e6, best_us, tasks)
