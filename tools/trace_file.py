"""`--trace=FILE.json`: writes spans as a time line that Perfetto (ui.perfetto.dev) and chrome://tracing can show.

The file is a JSON object of Chrome's Trace Event Format: complete events (`X`) in microseconds, and metadata (`M`)
with the names of the rows. The host's threads and the NPU's queues appear as two processes; a flow (`s`, `f`)
leads from an NPU call to its first task. The format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO

from litert.core.option import Flag

if TYPE_CHECKING:
    from litert.core.tracing import Recording, Span

TRACE = Flag(
    "trace",
    "",
    "File for a time line of the command's work, as JSON for ui.perfetto.dev and chrome://tracing.",
)

_HOST, _NPU = 1, 2

Event = Mapping[str, Any]
"""An event of Chrome's format, as a JSON object."""


@contextmanager
def traced(
    path: str, others: Iterable[str] = (), *, is_wanted: bool = False
) -> Iterator[Recording]:
    """Records spans during the `with` block, and writes the time line after the block has succeeded.

    Args:
      path: Path of the time line; "" to write no file.
      others: Other files of the command, which the time line must not overwrite; see `check_messages`.
      is_wanted: Whether spans are recorded even if `path` is empty.

    Yields:
      The recording, which stays empty if no time line is requested.

    Raises:
      LiteRtError: INVALID_ARGUMENT, before the block, if `path` is one of `others`; FILE_IO, before or after the
        block, if the time line cannot be written.
    """
    # Here, as --help must not wait for them.
    from litert.core.tracing import Recording, record

    from .destinations import check_messages, write_file

    check_messages(path, others, "trace", "the time line")
    with record() if path or is_wanted else nullcontext(Recording(None)) as recording:
        yield recording
    if path:
        write_file(path, lambda file: write_trace(file, recording.spans))


def write_trace(file: BinaryIO, spans: Sequence[Span]) -> None:
    """Writes spans, sorted by their start time, with one event on each line."""
    from json import JSONEncoder  # here: --help must not wait for it

    encode = JSONEncoder(allow_nan=False, separators=(",", ":")).encode
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[')
    separator = b"\n"
    for event in _events(spans):
        file.write(separator + encode(event).encode("ascii"))
        separator = b",\n"
    file.write(b"\n]}\n")


def _events(spans: Sequence[Span]) -> Iterator[Event]:
    from litert.core.tracing import SpanKind

    rows = _Rows(span.track for span in spans if span.kind is SpanKind.TASK)
    origin_ns = spans[0].start_ns if spans else 0
    calls: dict[str, Event] = {}
    numbers = count(1)
    for span in spans:
        place, new_row = rows.find(span)
        if new_row:
            yield from _metadata(place, new_row)
        event = {
            "ph": "X",
            "cat": span.kind.value,
            "name": _text(span.name),
            **place,
            "ts": (span.start_ns - origin_ns) / 1000,
            "dur": span.duration_ns / 1000,
            "args": {_text(name): _plain(value) for name, value in span.details.items()},
        }
        yield event
        if span.kind is SpanKind.CALL:
            calls[span.name] = event
        elif span.kind is SpanKind.TASK:
            call = calls.pop(str(span.details.get("call")), None)
            if call is not None:
                yield from _flow(call, event, next(numbers))


def _flow(source: Event, target: Event, number: int) -> Iterator[Event]:
    """Yields an arrow from the start of one event to the start of another event."""
    common = {"cat": "flow", "name": "task", "id": number}
    for phase, event, more in (("s", source, {}), ("f", target, {"bp": "e"})):
        place = {name: event[name] for name in ("pid", "tid", "ts")}
        yield {"ph": phase, **common, **place, **more}


def _metadata(place: Mapping[str, int], row: str) -> Iterator[Event]:
    """Yields metadata that gives the names of a row and its process, and the order of rows."""
    process = "NPU" if place["pid"] == _NPU else "Host"
    yield {"ph": "M", "name": "process_name", **place, "args": {"name": process}}
    yield {"ph": "M", "name": "thread_name", **place, "args": {"name": _text(row)}}
    yield {"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": place["tid"]}}


class _Rows:
    """The rows of the time line: one for each thread, one for all queues, and more for spans that overlap."""

    def __init__(self, device_tracks: Iterable[str]) -> None:
        self._device_tracks = frozenset(device_tracks)
        self._open: dict[tuple[int, str], list[tuple[int, list[int]]]] = {}
        self._count = 0

    def find(self, span: Span) -> tuple[Mapping[str, int], str]:
        """Returns the process and row of a span, and the name of a new row or "".

        Spans must come in the order of their start times.
        """
        pid, name = (_NPU, "queue") if span.track in self._device_tracks else (_HOST, span.track)
        end_ns = span.start_ns + span.duration_ns
        rows = self._open.setdefault((pid, name), [])
        for tid, ends in rows:
            while ends and ends[-1] <= span.start_ns:
                ends.pop()
            if not ends or end_ns <= ends[-1]:
                ends.append(end_ns)
                return {"pid": pid, "tid": tid}, ""
        self._count += 1
        rows.append((self._count, [end_ns]))
        return {"pid": pid, "tid": self._count}, name


def _plain(value: str | int | float) -> str | int | float:
    """Converts a detail to a value that JSON can represent."""
    is_plain = isinstance(value, int) or (isinstance(value, float) and abs(value) < float("inf"))
    return value if is_plain else _text(str(value))


def _text(text: str) -> str:
    """Returns a text without lone surrogates, which some JSON readers do not accept."""
    return text.encode("utf-8", "backslashreplace").decode()
