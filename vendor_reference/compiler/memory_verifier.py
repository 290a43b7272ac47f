"""Checks a memory plan independently of the planner.

For each step, the verifier has a list of the buffers in use, sorted by offset.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.memory_planner import LiveRange
from vendor_reference.executable.executable import ALIGNMENT


def verify_plan(
    buffers: Sequence[LiveRange],
    offsets: Sequence[int],
    size: int,
    names: Sequence[str] = (),
    places: Sequence[str] = (),
) -> None:
    """Rejects a memory plan of one arena if a task would overwrite data that another task still needs.

    Unless the offsets come from a file, such a plan is a bug in the planner. In messages, buffers without names
    are identified by their indices.
    """
    places = places or ["memory plan"] * len(buffers)
    names = names or [f"buffer {index}" for index in range(len(buffers))]
    if len(offsets) != len(buffers):
        raise _error(f"the memory plan has {len(offsets)} offsets, but {len(buffers)} buffers")
    for index, (buffer, offset) in enumerate(zip(buffers, offsets, strict=True)):
        fault = ""
        if offset < 0:
            fault = f"the negative offset {offset}"
        elif offset % ALIGNMENT:
            fault = f"offset {offset}, but the offset must be a multiple of {ALIGNMENT}"
        elif offset + buffer.size_bytes > size:
            fault = f"{buffer.size_bytes} bytes at offset {offset}, but the memory ends at offset {size}"
        if fault:
            raise _error(f"{names[index]} has {fault}", places[index])
    starts = sorted(range(len(buffers)), key=lambda i: buffers[i].first)
    ends = sorted(range(len(buffers)), key=lambda i: buffers[i].last)
    live: list[tuple[int, int]] = []  # places and buffers, sorted
    ended = 0
    for index in starts:
        buffer = buffers[index]
        while buffers[ends[ended]].last < buffer.first:
            _take_off(live, (offsets[ends[ended]], ends[ended]))
            ended += 1
        if buffer.size_bytes:
            _make_room(live, index, buffers, offsets, names, places[index])
            insort(live, (offsets[index], index))


def _make_room(
    live: list[tuple[int, int]],
    index: int,
    buffers: Sequence[LiveRange],
    offsets: Sequence[int],
    names: Sequence[str],
    place: str,
) -> None:
    """Checks a buffer against its two neighbours in memory.

    An operand that the buffer overwrites is no longer in use.
    """
    offset, buffer = offsets[index], buffers[index]
    operand = buffer.in_place_of
    if (
        operand is not None
        and offsets[operand] == offset
        and buffers[operand].first < buffers[operand].last == buffer.first
        and buffers[operand].size_bytes >= buffer.size_bytes
    ):
        _take_off(live, (offset, operand))
    at = bisect_left(live, (offset, index))
    for other_offset, other in live[max(at - 1, 0) : at + 1]:
        if (
            other_offset < offset + buffer.size_bytes
            and offset < other_offset + buffers[other].size_bytes
        ):
            raise _error(
                f"{names[other]} and {names[index]} overlap in memory, although task {buffer.first} needs both: "
                f"{names[other]} has {buffers[other].size_bytes} bytes at offset {other_offset}, and "
                f"{names[index]} has {buffer.size_bytes} bytes at offset {offset}",
                place,
            )


def _take_off(live: list[tuple[int, int]], entry: tuple[int, int]) -> None:
    at = bisect_left(live, entry)
    if at < len(live) and live[at] == entry:
        del live[at]


def _error(what: str, where: str = "memory plan") -> LiteRtError:
    return LiteRtError(Status.RUNTIME_FAILURE, what, where, VENDOR_REPAIRS)
