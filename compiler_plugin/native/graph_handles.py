"""The graph as a plugin holds it: a handle for each object, and C memory for what it reads."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.handles import STEP, Handles
from litert.model.blob import Blob
from litert.model.graph import Buffer, Op, Subgraph, Tensor

_OFTEN = 16
"""Questions about a row after which all its answers are worth making."""


class GraphHandles:
    """Handles of one plugin, valid during one call of it; then they are cleared. Ids of buffers stay.

    An object has one handle. Those of a subgraph's ops are in a row, each `STEP` above the one before, and so are
    those of its tensors. Ops have no inputs that are left out: as in stock, those do not count.
    """

    def __init__(self) -> None:
        self._handles = Handles()
        self._numbers: dict[object, int] = {}
        self._memory: dict[tuple[object, str], Any] = {}
        self._places: dict[Tensor, int] = {}
        self._owners: dict[Tensor, Subgraph] = {}  # among those that the plugin has seen
        self._firsts: list[int] = []  # of the rows, which ascend
        self._rows: list[Sequence[Op] | Sequence[Tensor]] = []
        self._asked: Counter[tuple[int, str]] = Counter()  # by a row's first handle
        self._buffer_ids: dict[Blob, int] = {}
        self.get = self._handles.get

    def of(self, value: object) -> int:
        """An object's handle."""
        number = self._numbers.get(value)
        if number is not None:
            return number
        if type(value) is Tensor and (owner := self._owners.get(value)):
            self._put_row(owner.tensors)
            return self._numbers[value]
        number = self._put(value)
        if type(value) is Subgraph:
            self._owners.update(dict.fromkeys(value.tensors, value))
            self._places.update({tensor: i for i, tensor in enumerate(value.tensors)})
            self._put_row(value.ops)
        return number

    def row(self, subgraph: Subgraph) -> int:
        """The handle of a subgraph's first op; 0 where the handles of all are not in a row."""
        first = self._numbers[subgraph.ops[0]]
        found = self._row_at(first)
        return first if found and found[1] is subgraph.ops else 0

    def column(
        self, handle: int, what: str, make: Callable[[int, Sequence[Any]], Any]
    ) -> Any | None:
        """What belongs to all objects in the row of a handle; None where there is no row, or no hurry.

        It is made once, as a cdata that owns it, of the first handle and the objects.
        """
        found = self._row_at(handle)
        if found is None:
            return None
        first, objects = found
        self._asked[first, what] += 1
        if self._asked[first, what] < _OFTEN:
            return None
        return self.memory(first, what, lambda: make(first, objects))

    def memory(self, owner: object, what: str, make: Callable[[], Any]) -> Any:
        """C memory that holds something of an object, or what else takes long to find; made once."""
        key = (owner, what)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make()
        return found

    def text(self, owner: object, what: str, text: str) -> Any:
        """An object's text as a C string; bytes that were no UTF-8 are as they were."""
        data = text.encode("utf-8", "surrogateescape")
        return self.memory(owner, what, lambda: ffi.new("char[]", data))

    def place(self, tensor: Tensor) -> int:
        """A tensor's index in the subgraph that the plugin has of it; that of a new one is the next."""
        return self._places.setdefault(tensor, len(self._places))

    def buffer_id(self, buffer: Buffer) -> int:
        """A number for a buffer's data: 0 without any, else one that no others have, the same in all calls."""
        if buffer.blob is None or not buffer.blob.size:
            return 0
        return self._buffer_ids.setdefault(buffer.blob, len(self._buffer_ids) + 1)

    def clear(self) -> None:
        """Forgets all but the ids of buffers: the call is over."""
        for each in (
            self._handles, self._numbers, self._memory, self._places,
            self._owners, self._firsts, self._rows, self._asked,
        ):  # fmt: skip
            each.clear()

    def close(self) -> None:
        """Forgets the ids of buffers too: the plugin is closed."""
        self.clear()
        self._buffer_ids.clear()

    def _put(self, value: object) -> int:
        number = self._numbers[value] = self._handles.put(value)
        return number

    def _put_row(self, objects: Sequence[Op] | Sequence[Tensor]) -> None:
        """Makes handles of all: a row, unless some have one, or another thread's handles came between."""
        new = [value for value in objects if value not in self._numbers]
        numbers = [self._put(value) for value in new]
        if numbers and numbers[-1] == numbers[0] + STEP * (len(objects) - 1):
            self._firsts.append(numbers[0])
            self._rows.append(objects)

    def _row_at(self, handle: int) -> tuple[int, Sequence[Any]] | None:
        """The row that a handle is in: its first handle, and its objects."""
        index = bisect_right(self._firsts, handle) - 1
        if index < 0 or handle >= self._firsts[index] + STEP * len(self._rows[index]):
            return None
        return self._firsts[index], self._rows[index]


def present_inputs(op: Op) -> Sequence[Tensor]:
    """An op's inputs without those that are left out."""
    inputs = op.inputs
    return [t for t in inputs if t is not None] if None in inputs else inputs  # type: ignore[return-value]
