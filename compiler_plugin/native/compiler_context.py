"""The compiler context: the table of functions through which a native plugin reads and edits this host's graph."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from compiler_plugin.native.builder_slots import builder_slots
from compiler_plugin.native.fast_getters import (
    FUNCTIONS,
    INDEX,
    FastGetters,
    column_table,
    index_table,
)
from compiler_plugin.native.graph_handles import GraphHandles
from compiler_plugin.native.graph_slots import GraphSlots, item, plain_answers
from compiler_plugin.native.option_getters import option_getters
from litert.abi.definitions import ffi
from litert.abi.options_table import options_table
from litert.abi.tables import fill, slots_of
from litert.core.counts import count_text
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Signature, Subgraph
from litert.model.writer import to_bytes

VERSION = (1, 3)
"""Version of the function table; this version belongs to LiteRT 2.3.0."""

_logger = logging.getLogger(__name__)

# Contexts of closed plugins, by vendor. A library may keep the pointer to its first context; therefore no context
# is freed.
_idle: dict[str, list[CompilerContext]] = {}


class CompilerContext:
    """A function table for one plugin, which has the table from `take` to `close`; no table is ever freed.

    Attributes:
      table: The `LiteRtCompilerContext*`.
      handles: Handles of the graph objects that the plugin can currently access.
    """

    def __init__(self, vendor: str) -> None:
        """Makes a context in which Python implements all functions; to get a context for a plugin, call `take`."""
        self._vendor = vendor
        self.handles = GraphHandles()
        self.table: Any = ffi.new("LiteRtCompilerContext*")
        slots: dict[str, Callable[..., Any]] = {
            **slots_of(self, "LiteRtCompilerContext"),
            **slots_of(GraphSlots(self.handles), "LiteRtCompilerContext"),
            **slots_of(options_table(), "LiteRtCompilerContext"),
            **option_getters(self.handles),
            **builder_slots(self.handles),
            **{
                slot: self._getter(slot, kind, answer)
                for slot, (kind, answer) in plain_answers(self.handles).items()
            },
        }
        self._kept = fill(self.table, slots, VERSION, f"vendor '{vendor}'", _logger)
        self._slow = {name: getattr(self.table, name) for name in FUNCTIONS}
        self._fast: FastGetters | None = None

    @classmethod
    def take(cls, vendor: str) -> CompilerContext:
        """Returns a context that no other plugin is using."""
        try:
            context = _idle.setdefault(vendor, []).pop()
        except IndexError:
            context = cls(vendor)
        context._fast = FastGetters.claim(context._slow)
        if context._fast is not None:
            context._set_slots(context._fast.functions)
        return context

    @contextmanager
    def showing(self, value: object) -> Iterator[int]:
        """Makes a handle of a subgraph, model or list for the plugin, valid until the `with` block ends."""
        try:
            yield self.handles.of(value)
        finally:
            if self._fast is not None:
                self._fast.hide()
            self.handles.clear()

    def close(self) -> None:
        """Makes the context available to the vendor's next plugin; all handles become invalid."""
        if self._fast is not None:
            self._set_slots(self._slow)
            self._fast.release()
            self._fast = None
        self.handles.close()
        _idle[self._vendor].append(self)

    def get_subgraph_op(self, subgraph: int, index: int, op: Any) -> None:
        """Implements the slot with the same name; if the ops' handles are consecutive, sets up the fast getter."""
        found = self.handles.get(subgraph, Subgraph)
        op[0] = self.handles.of(item(found.ops, index, "op"))
        if self._fast is not None and (first := self.handles.row(found)):
            table = self.handles.memory(
                found, "ops", lambda: index_table(subgraph, first, len(found.ops))
            )
            self._fast.show(INDEX, table)

    def serialize_model_with_signatures(
        self,
        model: int,
        buffer: Any,
        size: Any,
        offset: Any,
        _destroy_model: bool,
        signature_keys: Any,
        num_signatures: int,
        _options: Any,
    ) -> None:
        """Implements the slot with the same name."""
        found = self.handles.get(model, Model)
        if num_signatures != len(found.subgraphs):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the plugin passes {count_text(num_signatures, 'signature')}, but the model has "
                f"{count_text(len(found.subgraphs), 'subgraph')}: each subgraph needs one signature",
                hint=VENDOR_REPAIRS,
            )
        keys = [
            ffi.string(signature_keys[i]).decode("utf-8", "surrogateescape")
            for i in range(num_signatures)
            if signature_keys[i]
        ]
        found.signatures = [
            Signature.of(key, subgraph)
            for key, subgraph in zip(keys, found.subgraphs, strict=False)
        ]
        data = to_bytes(found)
        buffer[0], size[0], offset[0] = _malloc(data), len(data), 0

    def _getter(
        self, slot: str, kind: type[Any], answer: Callable[[Any], Any]
    ) -> Callable[[int, Any], None]:
        """Returns a getter in Python that sets up the fast getter if it is called often."""
        handles = self.handles

        def make(first: int, objects: Sequence[Any]) -> Any:
            try:
                return column_table(slot, first, [answer(value) for value in objects])
            except LiteRtError:  # one object has no answer: no table for this row
                return ffi.NULL

        def get(handle: int, target: Any) -> None:
            target[0] = answer(handles.get(handle, kind))
            if self._fast is not None and (table := handles.column(handle, slot, make)):
                self._fast.show(slot, table)

        return get

    def _set_slots(self, functions: Mapping[str, Any]) -> None:
        for name, function in functions.items():
            setattr(self.table, name, function)


def _malloc(data: bytes) -> Any:
    """Allocates a copy of bytes, which the caller frees."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    address = libc.malloc(max(len(data), 1))
    if not address:
        raise MemoryError
    pointer = ffi.cast("uint8_t*", address)
    ffi.memmove(pointer, data, len(data))
    return pointer
