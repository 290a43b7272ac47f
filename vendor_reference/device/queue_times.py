"""Converts the times of an OpenCL queue's commands from the device's clock to time spans in the host's clock.

To find the difference between the two clocks, the device's clock is read between two readings of the host's clock.
The error of this difference is at most half the time between the two readings of the host's clock. With Intel's
driver, the error is 0.1 to 0.5 us. Some drivers, such as PoCL, cannot report the device's clock. For these
drivers, the difference is computed from the end time of a marker command, with an error of about 20 us. Each time
span contains the error as `accuracy_ns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import NamedTuple, TypeAlias

import pyopencl as cl

from litert.core.tracing import Span, SpanKind
from vendor_reference.executable.executable import Function

_LOOKS = 5
"""Number of times that both clocks are read; the closest pair of readings is used."""


@dataclass(frozen=True, slots=True)
class HostTime:
    """Start and end time of a CPU layer, in nanoseconds of `perf_counter_ns`."""

    start: int
    end: int


class LaunchRow(NamedTuple):
    """Events of the first and the last launch in a sequence; for a single launch, both events are equal."""

    first: cl.Event
    last: cl.Event


Ended: TypeAlias = "cl.Event | LaunchRow | HostTime"
"""Events or times that show when a task ran."""


class HostRun(NamedTuple):
    """The host's times of a run, in nanoseconds of `perf_counter_ns`.

    Attributes:
      begin: Time when the host began to enqueue the run.
      enqueued: Time when the host began to wait for the queue.
      end: Time when the queue finished the run.
      track: Name of the time line's track for the host's time spans.
    """

    begin: int
    enqueued: int
    end: int
    track: str

    def spans(self, call: str) -> Iterator[Span]:
        """Returns the time spans of the host's work in the run."""
        for kind, name, start, end in (
            (SpanKind.HOST, "enqueue", self.begin, self.enqueued),
            (SpanKind.WAIT, "NPU queue", self.enqueued, self.end),
        ):
            yield Span(kind, name, start, end - start, self.track, {"call": call})


class QueueTimes:
    """Converts the times of a queue whose events record profiling times."""

    def __init__(self, queue: cl.CommandQueue, function: Function, track: str) -> None:
        """Measures the difference of the clocks; the time spans of `function` are shown on the track `track`."""
        self._function = function
        self._track = track
        looks = [_look(queue) for _ in range(_LOOKS)]
        self._accuracy_ns, self._ahead_ns = min(looks)

    def spans(
        self,
        events: Mapping[int, Ended],
        transfers: Mapping[str, cl.Event],
        run: HostRun,
    ) -> Sequence[Span]:
        """Returns the time spans of a finished run: its tasks, its transfers and the host's work.

        Args:
          events: OpenCL events of the tasks that had work to do, by task index.
          transfers: Events of the transfers, by the name of the tensor, such as `input 0`.
          run: Start and end of the run in the host's clock; all time spans lie between them.
        """
        call = self._function.name
        found: list[tuple[SpanKind, str, Ended, Mapping[str, str | int]]] = [
            (SpanKind.TRANSFER, name, event, {}) for name, event in transfers.items()
        ]
        for index, event in events.items():
            task = self._function.tasks[index]
            which: dict[str, str | int] = {"task": index, "kernel": task.entry}
            which |= {"op": task.op_name, "tensor": task.tensor}
            found.append((SpanKind.TASK, task.entry, event, which))
        late_ns = self._find_misfit([event for _, _, event, _ in found], run)
        spans = list(run.spans(call))
        for kind, name, event, own in found:
            start_ns, end_ns = self._host_time(event, late_ns)
            every = {"call": call, "accuracy_ns": self._accuracy_ns, **own}
            spans.append(Span(kind, name, start_ns, end_ns - start_ns, self._track, every))
        return spans

    def _find_misfit(self, events: Iterable[Ended], run: HostRun) -> int:
        """Returns by how many nanoseconds the queue's times are too late for the run; negative if too early.

        The clocks drift apart, because PoCL's clock is not corrected by network time.
        """
        times = [self._host_time(event) for event in events if not isinstance(event, HostTime)]
        if not times:
            return 0
        late_ns = max(end_ns for _, end_ns in times) - run.end
        early_ns = run.begin - min(start_ns for start_ns, _ in times)
        return late_ns if late_ns > 0 else -max(0, early_ns)

    def _host_time(self, event: Ended, late_ns: int = 0) -> tuple[int, int]:
        if isinstance(event, HostTime):
            return event.start, event.end
        first, last = event if isinstance(event, LaunchRow) else (event, event)
        ahead_ns = self._ahead_ns + late_ns
        return first.profile.start - ahead_ns, last.profile.end - ahead_ns


def _look(queue: cl.CommandQueue) -> tuple[int, int]:
    """Reads both clocks; returns the error, and by how much the device's clock is ahead, in nanoseconds."""
    before = perf_counter_ns()
    try:
        device_ns, _ = queue.device.device_and_host_timer()
    except (cl.Error, AttributeError):  # the function needs OpenCL 2.1, and is optional
        before = perf_counter_ns()
        marker = cl.enqueue_marker(queue)
        marker.wait()
        device_ns = marker.profile.end
    after = perf_counter_ns()
    return (after - before + 1) // 2, device_ns - (before + after) // 2
