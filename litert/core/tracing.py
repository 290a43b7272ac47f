"""Spans of time: what the compiler, the runtime, dispatch tables and devices measured, for whoever shows it.

Code measures where things happen, with `span` or `add`. While nobody records, that costs one look at a global.
All times are those of `time.perf_counter_ns`, which processes of one machine share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum


class SpanKind(str, Enum):
    """What went on in a span."""

    COMPILE = "compile"  # a whole compilation
    STEP = "step"  # of a compilation: reading, partitioning, writing
    TRANSFORMATION = "transformation"
    PLUGIN = "plugin"  # a function of a vendor's compiler plugin
    PASS = "pass"  # of a vendor's compiler
    BUILD = "build"  # of a kernel's program
    LOAD = "load"
    RUN = "run"  # of a whole model
    CALL = "call"  # of the NPU, as the host sees it
    TASK = "task"  # of an NPU call, by the device's clock
    TRANSFER = "transfer"  # between the host's memory and the device's
    WAIT = "wait"  # for the device, or for a lock
    CPU_OP = "cpu_op"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which one thing went on.

    Attributes:
      kind: what kind of thing.
      name: which one: a pass, an op, a kernel.
      start_ns: of `time.perf_counter_ns`; a device's clock is converted to it.
      duration_ns: nanoseconds.
      track: the line that it is drawn on: a thread's name, or a queue's. Spans of one track nest, or follow each
        other.
      details: further facts: sizes in bytes, the op's place, the call's name.
    """

    kind: SpanKind
    name: str
    start_ns: int
    duration_ns: int
    track: str
    details: Mapping[str, str | int | float] = field(default_factory=dict)


class Recording:
    """Spans in the order in which they ended."""

    __slots__ = ("spans",)

    def __init__(self) -> None:
        self.spans: list[Span] = []


_active: tuple[Recording, ...] = ()
_lock = threading.Lock()


def is_recording() -> bool:
    """Whether somebody records: what costs time to find out need not be measured otherwise."""
    return bool(_active)


@contextmanager
def record() -> Iterator[Recording]:
    """Records the spans of all threads while the block runs; recordings may overlap."""
    global _active
    recording = Recording()
    with _lock:
        _active = (*_active, recording)
    try:
        yield recording
    finally:
        with _lock:
            _active = tuple(one for one in _active if one is not recording)


def span(kind: SpanKind, name: str, **details: str | int | float) -> AbstractContextManager[None]:
    """Measures a block on this thread's track; a block that raises is measured, too."""
    return _measured(kind, name, details) if _active else _NOT_MEASURED


def add(measured: Span) -> None:
    """Adds a span that was measured otherwise, such as one by a device's clock."""
    for recording in _active:
        recording.spans.append(measured)


@contextmanager
def _measured(
    kind: SpanKind, name: str, details: Mapping[str, str | int | float]
) -> Iterator[None]:
    start_ns = time.perf_counter_ns()
    try:
        yield
    finally:
        duration_ns = time.perf_counter_ns() - start_ns
        track = threading.current_thread().name
        add(Span(kind, name, start_ns, duration_ns, track, details))


_NOT_MEASURED = nullcontext()
