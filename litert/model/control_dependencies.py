"""Which ops must run before which beyond what their tensors say: the metadata `model_control_dependencies`.

The converter writes it for ops with side effects, and the interpreter reads it when it hands ops to delegates. Ops
are named by their positions, so that it must follow when ops are replaced. Format: numbers as varints, a version,
then for each subgraph a list of pairs (LiteRT: `tflite/converter/experimental/remat/metadata_util.cc`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from litert.model.blob import Blob
from litert.model.graph import Model

CONTROL_DEPENDENCIES_KEY = "model_control_dependencies"

Edge = tuple[int, int]
"""Position of an op, and of one that must run after it."""

_VERSION = 1
_MAX_BITS = 32


def read_control_dependencies(model: Model) -> list[list[Edge]]:
    """The edges of each subgraph; none where the metadata are missing, or not what the interpreter takes."""
    blob = model.find_metadata(CONTROL_DEPENDENCIES_KEY)
    none: list[list[Edge]] = [[] for _ in model.subgraphs]
    if blob is None:
        return none
    try:
        found = _Numbers(bytes(blob)).edges()
    except (IndexError, ValueError):
        return none
    return found if len(found) == len(model.subgraphs) else none


def set_control_dependencies(model: Model, edges: Sequence[Iterable[Edge]]) -> None:
    """Replaces the edges of a model that has such metadata.

    Args:
      model: to change.
      edges: of each subgraph; those that are left out have none.
    """
    every = [*edges, *([()] * (len(model.subgraphs) - len(edges)))]
    data = bytearray()
    _put(data, _VERSION)
    _put(data, len(every))
    for some in every:
        ordered = sorted(set(some))
        _put(data, len(ordered))
        for edge in ordered:
            for position in edge:
                _put(data, position * 2)  # zigzag
    for entry in model.metadata:
        if entry.name == CONTROL_DEPENDENCIES_KEY:
            entry.buffer.blob = Blob(bytes(data))
            return


class _Numbers:
    """Varints, read one by one; too few are an IndexError, and what makes no sense a ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def edges(self) -> list[list[Edge]]:
        if self._unsigned() != _VERSION:
            raise ValueError("of another version")
        found = [
            [(self._position(), self._position()) for _ in range(self._count())]
            for _ in range(self._count())
        ]
        if self._place != len(self._data):
            raise ValueError("bytes at the end")
        return found

    def _count(self) -> int:
        count = self._unsigned()
        if count > len(self._data) - self._place:  # each takes a byte or more
            raise ValueError("longer than the data")
        return count

    def _position(self) -> int:
        value = self._unsigned()
        if value % 2:
            raise ValueError("a negative position")
        return value // 2

    def _unsigned(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._data[self._place]
            self._place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value
            if shift > _MAX_BITS:
                raise ValueError("more than 32 bits")


def _put(data: bytearray, value: int) -> None:
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
