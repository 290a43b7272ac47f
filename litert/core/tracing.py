"""Records spans of time, which show how long activities of compiler, runtime, dispatch tables and devices take.

Code records spans with `span`, `add` or `add_later`; these functions do nothing if no recording is active.
All times come from `time.perf_counter_ns`, which has the same clock in all processes of a machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import wraps
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])


class SpanKind(str, Enum):
    """The kinds of spans."""

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
    HOST = "host"  # of an NPU call: the host's own work, such as enqueueing tasks
    INVOKE = "invoke"  # of an NPU call: time in the vendor's function that no other span covers
    CPU_OP = "cpu_op"


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time that a thread or queue spent on an activity.

    Attributes:
      kind: Kind of the activity that took the time.
      name: Name of the activity, for example the name of a pass, an op or a kernel.
      start_ns: Start time on the clock of `time.perf_counter_ns`, in nanoseconds; times from a device's clock are
        converted.
      duration_ns: Duration of the span, in nanoseconds.
      track: Name of the thread or queue; a time line draws one line for each track. Two spans of the same
        track are nested or do not overlap.
      details: Further values, such as sizes in bytes, the position of the op, or the name of the NPU call.
    """

    kind: SpanKind
    name: str
    start_ns: int
    duration_ns: int
    track: str
    details: Mapping[str, str | int | float] = field(default_factory=dict)


class Recording:
    """A recording: collects spans while it is active."""

    __slots__ = ("_has_ended", "_later", "_measured", "_spans", "_thread")

    def __init__(self, thread: int | None) -> None:
        """Makes an empty recording of the spans of one thread, or of all threads if `thread` is None."""
        self._has_ended = False
        self._thread = thread
        self._spans: list[Span] = []
        self._measured: list[tuple[Any, ...]] = []  # not spans yet, which take longer to make
        self._later: list[Callable[[], Iterable[Span]]] = []

    @property
    def spans(self) -> Sequence[Span]:
        """Returns all spans so far, sorted by start time; of spans with equal start, longer spans come first."""
        while self._later:
            self._spans += self._later.pop()()
        while self._measured:
            self._spans.append(Span(*self._measured.pop()))
        self._spans.sort(key=lambda one: (one.start_ns, -one.duration_ns))
        return self._spans

    def take_plain(self) -> Sequence[Sequence[Any]]:
        """Removes all spans and returns them as plain data for JSON; another process passes them to `take_in`."""
        taken, self._spans = self.spans, []
        return [
            [s.kind.value, s.name, s.start_ns, s.duration_ns, s.track, dict(s.details)]
            for s in taken
        ]


_MAIN = threading.main_thread().name

RECORDINGS: list[Recording] = []
"""The active recordings. A check whether this list is empty takes 10 ns, a call of `is_recording` 50 ns, and a
call of `span` 200 ns.

Code that runs often should call `is_recording` only if this list is not empty. In this case the call is necessary,
because the active recording may be for another thread.
"""

_lock = threading.Lock()


def is_recording() -> bool:
    """Returns whether a recording of this thread is active; if not, code can skip costly measurements."""
    return bool(RECORDINGS) and bool(_takers())


@contextmanager
def record(*, own_thread: bool = False) -> Iterator[Recording]:
    """Records the spans of all threads, or only of this thread, in the `with` block; recordings may overlap."""
    recording = Recording(threading.get_ident() if own_thread else None)
    RECORDINGS.append(recording)
    try:
        yield recording
    finally:
        with _lock:
            recording._has_ended = True
            if recording in RECORDINGS:  # false if another thread has paused the recording
                RECORDINGS.remove(recording)


@contextmanager
def paused() -> Iterator[None]:
    """Pauses the recordings of this thread in the `with` block, for code that makes its own measurements."""
    with _lock:
        active = _takers()
        RECORDINGS[:] = [recording for recording in RECORDINGS if recording not in active]
    try:
        yield
    finally:
        with _lock:
            RECORDINGS[:0] = [recording for recording in active if not recording._has_ended]


def take_in(plain: Iterable[Sequence[Any]], process: str) -> None:
    """Adds spans that `Recording.take_plain` returned in another process; track names begin with `process`."""
    for kind, name, start_ns, duration_ns, track, details in plain:
        where = process if track == _MAIN else f"{process}: {track}"
        add(Span(SpanKind(kind), name, start_ns, duration_ns, where, details))


def span(kind: SpanKind, name: str, **details: str | int | float) -> AbstractContextManager[None]:
    """Records the `with` block as a span on this thread's track, even if the block raises an exception."""
    if RECORDINGS:
        takers = _takers()
        if takers:
            return _Measured(takers, kind, name, details)
    return _NOT_MEASURED


def measured(kind: SpanKind, name: str) -> Callable[[_Function], _Function]:
    """A decorator that records each call of a function as a span."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def measure(*args: Any, **kwargs: Any) -> Any:
            with span(kind, name):
                return function(*args, **kwargs)

        return cast(_Function, measure)

    return decorate


def add(one: Span) -> None:
    """Adds a span that other code has measured, for example with a device's clock."""
    for recording in _takers():
        recording._spans.append(one)


def add_later(make: Callable[[], Iterable[Span]]) -> Callable[[], Sequence[Span]]:
    """Adds spans that a function collects later, because the collection takes time.

    The function `make` is called when the spans are read, so that its time is not part of the measurement.

    Returns:
      A function that other readers of the spans may call: it returns the spans, and calls `make` only once.
    """
    once = _Once(make)
    for recording in _takers():
        recording._later.append(once)
    return once


def _takers() -> Sequence[Recording]:
    """Returns the active recordings that record spans of this thread."""
    thread = threading.get_ident()
    return [
        r for r in tuple(RECORDINGS) if r._thread is None or r._thread == thread
    ]  # a copy, because other threads end their recordings


class _Once:
    """Calls a function only once, and caches the result; cheaper to make than a `functools.cache`."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Iterable[Span]]) -> None:
        self._make: Callable[[], Iterable[Span]] | None = make
        self._made: Sequence[Span] = ()

    def __call__(self) -> Sequence[Span]:
        if self._make is not None:
            self._made, self._make = tuple(self._make()), None
        return self._made


class _Measured:
    """Context manager that adds the span of its block to recordings."""

    __slots__ = ("_details", "_kind", "_name", "_start_ns", "_takers")

    def __init__(
        self,
        takers: Sequence[Recording],
        kind: SpanKind,
        name: str,
        details: Mapping[str, str | int | float],
    ) -> None:
        self._takers = takers
        self._kind, self._name, self._details = kind, name, details

    def __enter__(self) -> None:
        self._start_ns = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        duration_ns = time.perf_counter_ns() - self._start_ns
        track = threading.current_thread().name
        measured = (self._kind, self._name, self._start_ns, duration_ns, track, self._details)
        for recording in self._takers:
            recording._measured.append(measured)


_NOT_MEASURED = nullcontext()
