"""Where data lie in the file behind the tables: in the order of the file that they come from.

Blobs that are neighbours in one file stay neighbours, as far apart as they were, so that they are copied as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from litert.model.blob import Blob, MappedFile

ALIGNMENT = 64
"""Of byte code, and of data behind the flatbuffer."""

_NEIGHBOUR_ALIGNMENT = 16  # the schema's for data; neighbours keep what more they had, or had not
_MAX_GAP = 64  # between neighbours: copied along, and overwritten where it differs


@dataclass(frozen=True, slots=True)
class Placed:
    """A blob and its place.

    Attributes:
      offset: of its first byte, from the end of the tables.
      prefix: bytes in front of it: its size, for a vector of a flatbuffer.
    """

    blob: Blob
    offset: int
    prefix: bytes = b""

    @property
    def end(self) -> int:
        return self.offset + self.blob.size


def place_in_flatbuffer(blobs: Iterable[Blob]) -> list[Placed]:
    """Gives data vectors their places, right behind the tables; in the order of the places."""
    return _place(blobs, 0, _NEIGHBOUR_ALIGNMENT, True)


def place_behind(blobs: Iterable[Blob], start: int) -> list[Placed]:
    """Gives data behind the flatbuffer their places from `start` on; in the order of the places."""
    return _place(blobs, start, ALIGNMENT, False)


def _place(blobs: Iterable[Blob], start: int, alignment: int, has_prefix: bool) -> list[Placed]:
    """The same blob twice has one place."""
    unique = list({id(blob): blob for blob in blobs}.values())
    bases: dict[int, int] = {}
    for blob in unique:
        if blob.base is not None:
            bases.setdefault(id(blob.base), len(bases))
    alone = [blob for blob in unique if blob.base is None]
    ranges = [blob for blob in unique if blob.base is not None]
    ranges.sort(key=lambda blob: (bases[id(blob.base)], blob.offset, blob.size))

    placed: list[Placed] = []
    end = start
    last: Placed | None = None
    for blob in (*alone, *ranges):
        prefix = blob.size.to_bytes(4, "little") if has_prefix else b""
        first = end + len(prefix)
        offset = first + -first % alignment
        if last is not None and blob.base is not None and last.blob.base is blob.base:
            beside = last.offset + blob.offset - last.blob.offset
            if first <= beside <= end + _MAX_GAP and beside % _NEIGHBOUR_ALIGNMENT == 0:
                offset = beside
        last = Placed(blob, offset, prefix)
        placed.append(last)
        end = last.end
    return placed


@dataclass(slots=True)
class Run:
    """A range of a file that is copied as it is."""

    file: MappedFile
    source: int
    target: int
    size: int


@dataclass(slots=True)
class Plan:
    """How a file is written: what does not appear here is zero.

    Attributes:
      texts: target and bytes.
      runs: ranges of files, in the order of their targets.
      gaps: target, bytes, and the place in the run's file that was copied there: to be written where they differ.
      size: of the whole file.
    """

    texts: list[tuple[int, bytes | memoryview]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    gaps: list[tuple[int, bytes, MappedFile, int]] = field(default_factory=list)
    size: int = 0


def plan_file(tables: bytes | bytearray, placed: Sequence[Placed], size: int) -> Plan:
    """Says what is copied, and what is written, for a file of tables and what follows them.

    Args:
      tables: what the file starts with.
      placed: what follows, in the order of the places.
      size: of the file.
    """
    plan = Plan([(0, memoryview(tables))], size=size)
    run: Run | None = None
    for entry in placed:
        blob, target = entry.blob, len(tables) + entry.offset
        if blob.file is None or not blob.size:
            plan.texts.append((target - len(entry.prefix), entry.prefix))
            plan.texts.append((target, blob.view))
            continue
        gap = target - (run.target + run.size) if run is not None else -1
        if (
            run is not None
            and run.file is blob.file
            and blob.offset - run.source == target - run.target
            and len(entry.prefix) <= gap <= _MAX_GAP
        ):
            if gap:
                expected = bytes(gap - len(entry.prefix)) + entry.prefix
                plan.gaps.append((target - gap, expected, blob.file, blob.offset - gap))
            run.size += gap + blob.size
            continue
        plan.texts.append((target - len(entry.prefix), entry.prefix))
        run = Run(blob.file, blob.offset, target, blob.size)
        plan.runs.append(run)
    return plan
