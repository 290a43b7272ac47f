"""`--trace=FILE.json`: spans as a time line that Perfetto (ui.perfetto.dev) and chrome://tracing open.

The file is a JSON object of Chrome's Trace Event Format: complete events (`X`) in microseconds, and metadata (`M`)
that names the rows. The queues of the NPU are a process of their own, beside the threads of the host; a flow (`s`,
`f`) leads from an NPU call to its first task. The format:
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
    "File to write a time line of the command's work to, as JSON for ui.perfetto.dev and "
    "chrome://tracing.",
)

_HOST, _NPU = 1, 2

Event = Mapping[str, Any]
"""An event of Chrome's format, as a JSON object."""


@contextmanager
def traced(
    path: str, others: Iterable[str] = (), *, is_wanted: bool = False
) -> Iterator[Recording]:
    """Records the block, and writes its time line after the block succeeded; "" writes no file.

    Args:
      path: Path of the time line.
      others: Files that the time line must not replace, as in `check_messages`.
      is_wanted: Whether to record even if there is no file to write.

    Yields:
      The recording; it stays empty if no trace is wanted.

    Raises:
      LiteRtError: before the block INVALID_ARGUMENT, for a path that is one of the others; FILE_IO, for one that
        cannot be written, before the block or behind it.
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
    """Writes spans, sorted by their start, one event on each line."""
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
    """An arrow from the start of an event to that of another."""
    common = {"cat": "flow", "name": "task", "id": number}
    for phase, event, more in (("s", source, {}), ("f", target, {"bp": "e"})):
        place = {name: event[name] for name in ("pid", "tid", "ts")}
        yield {"ph": phase, **common, **place, **more}


def _metadata(place: Mapping[str, int], row: str) -> Iterator[Event]:
    """What names a row and its process, and keeps rows in the order of their first spans."""
    process = "NPU" if place["pid"] == _NPU else "Host"
    yield {"ph": "M", "name": "process_name", **place, "args": {"name": process}}
    yield {"ph": "M", "name": "thread_name", **place, "args": {"name": _text(row)}}
    yield {"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": place["tid"]}}


class _Rows:
    """The rows of the drawing: one for a thread, one for all queues; more where spans neither nest nor follow."""

    def __init__(self, device_tracks: Iterable[str]) -> None:
        self._device_tracks = frozenset(device_tracks)
        self._open: dict[tuple[int, str], list[tuple[int, list[int]]]] = {}
        self._count = 0

    def find(self, span: Span) -> tuple[Mapping[str, int], str]:
        """A span's process and row, and the name of a row that is new, else ""; spans come by their start."""
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
    """A detail as JSON can have it."""
    is_plain = isinstance(value, int) or (isinstance(value, float) and abs(value) < float("inf"))
    return value if is_plain else _text(str(value))


def _text(text: str) -> str:
    """A text without lone surrogates, which not every reader of JSON takes."""
    return text.encode("utf-8", "backslashreplace").decode()
