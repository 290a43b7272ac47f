"""Divides the time of an NPU call into the vendor's tasks, transfers and waits, and the host's work."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from litert.core.tracing import Span, SpanKind
from litert.runtime.op_timer import OpRun

_DEVICE_S = (SpanKind.TASK, SpanKind.TRANSFER)
_TOLD = (*_DEVICE_S, SpanKind.WAIT, SpanKind.HOST)
"""Kinds of the spans that are recorded for parts of an NPU call."""


class CallPart(NamedTuple):
    """A part of an NPU call.

    Time during which the device works counts as the device's time, even if the host works or waits in parallel.

    Attributes:
      task: The vendor's number of the task; -1 if the part is not a task.
      duration_ns: Time of this part that belongs to no other part of the call, in nanoseconds.
    """

    kind: SpanKind
    name: str
    task: int
    duration_ns: int


def call_parts(run: OpRun, function: str, spans: Sequence[Span]) -> Iterator[CallPart]:
    """Divides one run of an NPU call into parts.

    Args:
      run: Time range of the call's op, as measured in the interpreter.
      function: Name of the byte code's function that the call runs.
      spans: Spans of the model's run, ordered by start.

    Returns:
      The recorded parts, the rest of the vendor's `invoke`, and the runtime's own work around `invoke`. The times
      of all parts add up to the time of the run.
    """
    start = bisect_left(spans, run.start_ns, key=_start_ns)
    inside = spans[start : bisect_right(spans, run.end_ns, key=_start_ns)]
    covered: list[tuple[int, int]] = []
    told = [s for s in inside if s.kind in _TOLD and s.details.get("call", function) == function]
    for span in sorted(told, key=_precedence):
        own_ns = _claim(span.start_ns, min(_end_ns(span), run.end_ns), covered)
        yield CallPart(span.kind, span.name, int(span.details.get("task", -1)), own_ns)
    for invoke in inside:
        if invoke.kind is SpanKind.CALL:
            own_ns = _claim(invoke.start_ns, _end_ns(invoke), covered)
            yield CallPart(SpanKind.INVOKE, "invoke", -1, own_ns)
            around_ns = _claim(run.start_ns, run.end_ns, covered)
            yield CallPart(SpanKind.HOST, "runtime", -1, around_ns)


def _start_ns(span: Span) -> int:
    return span.start_ns


def _end_ns(span: Span) -> int:
    return span.start_ns + span.duration_ns


def _precedence(span: Span) -> tuple[bool, int, int]:
    """Sorts the device's spans first, then shorter spans: a wait inside the host's work counts as a wait."""
    if span.kind in _DEVICE_S:
        return False, 0, span.start_ns
    return True, span.duration_ns, span.start_ns


def _claim(start_ns: int, end_ns: int, covered: list[tuple[int, int]]) -> int:
    """Covers a time range and returns how much of it was uncovered; covered ranges are sorted and disjoint."""
    own_ns = max(0, end_ns - start_ns)
    begin_ns, stop_ns = start_ns, end_ns
    first = last = bisect_left(covered, start_ns, key=lambda stretch: stretch[1])
    while last < len(covered) and covered[last][0] <= end_ns:
        before_ns, after_ns = covered[last]
        own_ns -= max(0, min(end_ns, after_ns) - max(start_ns, before_ns))
        begin_ns, stop_ns = min(begin_ns, before_ns), max(stop_ns, after_ns)
        last += 1
    covered[first:last] = [(begin_ns, stop_ns)]
    return own_ns
