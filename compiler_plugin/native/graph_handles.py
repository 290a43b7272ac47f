"""The graph as a plugin holds it: a handle for each object, and C memory for what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.model.graph import Buffer, Op, Subgraph, Tensor

_Object = TypeVar("_Object")


class GraphHandles:
    """Handles of one plugin, valid during one call of it; then they are cleared.

    An object has one handle. Ops have no inputs that are left out: as in stock, those do not count.
    """

    def __init__(self) -> None:
        self._handles = Handles()
        self._numbers: dict[object, int] = {}
        self._memory: dict[tuple[object, str], Any] = {}
        self._places: dict[Tensor, int] = {}
        self._buffers: dict[Buffer, int] = {}
        self.get = self._handles.get

    def of(self, value: object) -> int:
        """An object's handle."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self._handles.put(value)
            if type(value) is Subgraph:
                self._places.update({tensor: i for i, tensor in enumerate(value.tensors)})
                for op in value.ops:  # all at once: their handles are then in a row
                    self.of(op)
        return number

    def memory(self, owner: object, what: str, make: Callable[[], Any]) -> Any:
        """C memory that belongs to an object; made once.

        Args:
          owner: the object.
          what: that the memory holds of it.
          make: it, as a cdata that owns it.
        """
        key = (owner, what)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make()
        return found

    def text(self, owner: object, what: str, text: str) -> Any:
        """An object's text as a C string; bytes that were no UTF-8 are as they were."""
        return self.memory(
            owner,
            what,
            lambda: ffi.new("char[]", text.encode("utf-8", "surrogateescape")),
        )

    def place(self, tensor: Tensor) -> int:
        """A tensor's index in the subgraph that the plugin has of it; that of a new one is the next."""
        return self._places.setdefault(tensor, len(self._places))

    def buffer_id(self, buffer: Buffer) -> int:
        """A number for a buffer: 0 without data, else one that no other has."""
        if buffer.blob is None or not buffer.blob.size:
            return 0
        return self._buffers.setdefault(buffer, len(self._buffers) + 1)

    def clear(self) -> None:
        """Forgets all: the call is over."""
        for each in (self._handles, self._numbers, self._memory, self._places, self._buffers):
            each.clear()


def present_inputs(op: Op) -> Sequence[Tensor]:
    """An op's inputs without those that are left out."""
    inputs = op.inputs
    return [t for t in inputs if t is not None] if None in inputs else inputs  # type: ignore[return-value]
