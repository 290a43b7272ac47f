"""The compiler context that a host hands to a plugin, seen from the plugin: its slots, called and checked."""

from __future__ import annotations

from typing import Any

from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.core.errors import LiteRtError
from litert.core.status import Status

_POINTER_SIZE = ffi.sizeof("void*")


class HostContext:
    """A host's table of functions; older hosts' are shorter."""

    def __init__(self, table: Any) -> None:
        """For a `const LiteRtCompilerContext*`, which must live as long as this.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for NULL.
        """
        if not table:
            raise LiteRtError(Status.INVALID_ARGUMENT, "the host gives no compiler context")
        self._table = table
        self._size = int(table.abi_header.struct_size)
        self._functions: dict[str, Any] = {}

    def find(self, slot: str) -> Any:
        """A slot's function; None where the host has none."""
        if slot not in self._functions:
            end = ffi.offsetof("LiteRtCompilerContext", slot) + _POINTER_SIZE
            is_there = end <= self._size
            self._functions[slot] = (getattr(self._table, slot) if is_there else None) or None
        return self._functions[slot]

    def call(self, slot: str, *arguments: Any) -> None:
        """Calls a slot.

        Raises:
          LiteRtError: of the status that it returns; WRONG_VERSION, where the host has no such slot.
        """
        function = self.find(slot)
        if function is None:
            raise LiteRtError(
                Status.WRONG_VERSION,
                f"the host's compiler context has no {slot}",
                hint="This plugin needs LiteRT 2.1 or newer.",
            )
        check(function(*arguments), f"the host's {slot} failed")

    def number(self, slot: str, handle: Any, kind: str = "size_t") -> Any:
        """What a slot tells of a handle in one number.

        Args:
          slot: that takes the handle and a pointer to the number.
          handle: of what is asked about.
          kind: the number's type in C.
        """
        answer = ffi.new(f"{kind}*")
        self.call(slot, handle, answer)
        return answer[0]

    def text(self, slot: str, handle: Any) -> str:
        """What a slot tells of a handle in words; "" for NULL.

        Bytes that are not UTF-8 become lone surrogates, as everywhere in the graph.
        """
        answer = ffi.new("char**")
        self.call(slot, handle, answer)
        return ffi.string(answer[0]).decode("utf-8", "surrogateescape") if answer[0] else ""

    def items(self, kind: str, count_slot: str, item_slot: str, owner: Any) -> list[Any]:
        """All handles of one kind that another has.

        Args:
          kind: their type in C: `LiteRtOp`.
          count_slot: tells how many there are.
          item_slot: gives one by its index.
          owner: the handle that has them.
        """
        answer = ffi.new(f"{kind}*")
        items: list[Any] = []
        for index in range(self.number(count_slot, owner)):
            self.call(item_slot, owner, index, answer)
            items.append(answer[0])
        return items
