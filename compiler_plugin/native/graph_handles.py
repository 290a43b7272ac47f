"""Handles of graph objects for a native plugin, and C memory for data that the plugin reads."""

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
"""After this many getter calls for one row of handles, the return values for the whole row are computed."""


class GraphHandles:
    """Handles for one plugin, valid during one call to the plugin; only buffer ids stay valid after the call.

    Each graph object has one handle. The handles of a subgraph's ops form a row: each handle is the previous
    handle plus `STEP`. The handles of a subgraph's tensors also form a row. Omitted optional inputs of an op have
    no handles and are not counted, as in stock LiteRT.
    """

    def __init__(self) -> None:
        self._handles = Handles()
        self._numbers: dict[object, int] = {}
        self._memory: dict[tuple[object, str], Any] = {}
        self._places: dict[Tensor, int] = {}
        self._owners: dict[Tensor, Subgraph] = {}  # subgraphs that the plugin has seen
        self._firsts: list[int] = []  # first handle of each row, ascending
        self._rows: list[Sequence[Op] | Sequence[Tensor]] = []
        self._asked: Counter[tuple[int, str]] = (
            Counter()
        )  # number of calls, by a row's first handle
        self._buffer_ids: dict[Blob, int] = {}
        self.get = self._handles.get

    def of(self, value: object) -> int:
        """Returns the handle of an object; the first call for the object creates the handle."""
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
        """Returns the handle of a subgraph's first op; 0 if the handles of its ops do not form a row."""
        first = self._numbers[subgraph.ops[0]]
        found = self._row_at(first)
        return first if found and found[1] is subgraph.ops else 0

    def column(
        self, handle: int, what: str, make: Callable[[int, Sequence[Any]], Any]
    ) -> Any | None:
        """Returns a table of values for a row of handles; None if there is no row or there were only a few calls.

        `make` computes the table once, from the first handle and the objects of the row; the table must be a cffi
        object that owns its memory.
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
        """Returns a value, such as C memory, that is stored for an object; `make` creates it on the first call."""
        key = (owner, what)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make()
        return found

    def text(self, owner: object, what: str, text: str) -> Any:
        """Converts an object's string, such as its name, to a C string; keeps bytes that are not valid UTF-8."""
        data = text.encode("utf-8", "surrogateescape")
        return self.memory(owner, what, lambda: ffi.new("char[]", data))

    def place(self, tensor: Tensor) -> int:
        """Returns the index of a tensor in its subgraph; a tensor added by a pattern gets the next free index."""
        return self._places.setdefault(tensor, len(self._places))

    def buffer_id(self, buffer: Buffer) -> int:
        """Returns the unique id of a buffer's data; the id is the same in all calls, and 0 for an empty buffer."""
        if buffer.blob is None or not buffer.blob.size:
            return 0
        return self._buffer_ids.setdefault(buffer.blob, len(self._buffer_ids) + 1)

    def clear(self) -> None:
        """Discards all handles at the end of a call to the plugin; buffer ids stay valid."""
        for each in (
            self._handles, self._numbers, self._memory, self._places,
            self._owners, self._firsts, self._rows, self._asked,
        ):  # fmt: skip
            each.clear()

    def close(self) -> None:
        """Discards all handles and buffer ids when the plugin is closed."""
        self.clear()
        self._buffer_ids.clear()

    def _put(self, value: object) -> int:
        number = self._numbers[value] = self._handles.put(value)
        return number

    def _put_row(self, objects: Sequence[Op] | Sequence[Tensor]) -> None:
        """Makes handles for all objects; usually they form a row, unless some objects already had handles."""
        new = [value for value in objects if value not in self._numbers]
        numbers = [self._put(value) for value in new]
        if numbers and numbers[-1] == numbers[0] + STEP * (len(objects) - 1):
            self._firsts.append(numbers[0])
            self._rows.append(objects)

    def _row_at(self, handle: int) -> tuple[int, Sequence[Any]] | None:
        """Returns the first handle and the objects of the row that contains a handle."""
        index = bisect_right(self._firsts, handle) - 1
        if index < 0 or handle >= self._firsts[index] + STEP * len(self._rows[index]):
            return None
        return self._firsts[index], self._rows[index]


def present_inputs(op: Op) -> Sequence[Tensor]:
    """Returns the inputs that an op has; optional inputs that are absent are skipped."""
    inputs = op.inputs
    return [t for t in inputs if t is not None] if None in inputs else inputs  # type: ignore[return-value]
