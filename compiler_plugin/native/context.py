"""The compiler context: the table of functions that this host gives a plugin, over its own graph."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from compiler_plugin.native.builder_slots import builder_slots
from compiler_plugin.native.fast_ops import FUNCTIONS, FastOps
from compiler_plugin.native.graph_handles import GraphHandles
from compiler_plugin.native.graph_slots import item, model_slots, op_slots, tensor_slots
from compiler_plugin.native.option_getters import option_getters
from compiler_plugin.native.serialization import serialization_slots
from litert.abi.definitions import ffi
from litert.abi.handles import STEP
from litert.abi.options import options_table
from litert.abi.tables import fill
from litert.model.graph import Subgraph

VERSION = (1, 3)
"""Of the table: LiteRT 2.3.0's."""

_logger = logging.getLogger(__name__)

# Of vendors whose plugins are closed. A library may keep the pointer that it got first: no context is ever freed,
# and there are as many as there were plugins at one time.
_idle: dict[str, list[CompilerContext]] = {}


class CompilerContext:
    """A table for one plugin, which may be called until the process ends; `take` gives one, until its `close`.

    Attributes:
      table: the `LiteRtCompilerContext*`.
      handles: of the graph that the plugin is shown at the moment.
    """

    def __init__(self, vendor: str) -> None:
        """A context of the caller's own, which answers everything in Python; `take` is for plugins."""
        self._vendor = vendor
        self.handles = GraphHandles()
        self.table: Any = ffi.new("LiteRtCompilerContext*")
        slots = {
            **model_slots(self.handles),
            "get_subgraph_op": self._get_subgraph_op,
            **op_slots(self.handles),
            **tensor_slots(self.handles),
            **option_getters(self.handles),
            **builder_slots(self.handles),
            **serialization_slots(self.handles),
            **options_table().slots(),
        }
        self._kept = fill(self.table, slots, VERSION, f"vendor '{vendor}'", _logger)
        self._slow = {name: getattr(self.table, name) for name in FUNCTIONS}
        self._fast_ops: FastOps | None = None

    @classmethod
    def take(cls, vendor: str) -> CompilerContext:
        """A context that no other plugin has at the moment."""
        try:
            context = _idle.setdefault(vendor, []).pop()
        except IndexError:
            context = cls(vendor)
        context._fast_ops = FastOps.claim(context._slow)
        if context._fast_ops is not None:
            context._set_slots(context._fast_ops.functions)
        return context

    @contextmanager
    def showing(self, value: object) -> Iterator[int]:
        """The handle of a subgraph, model or list, valid in the block; so is what it leads to."""
        try:
            yield self.handles.of(value)
        finally:
            if self._fast_ops is not None:
                self._fast_ops.hide()
            self.handles.clear()

    def close(self) -> None:
        """Leaves it to the vendor's next plugin; handles that the plugin still has are unknown."""
        if self._fast_ops is not None:
            self._set_slots(self._slow)
            self._fast_ops.release()
            self._fast_ops = None
        _idle[self._vendor].append(self)

    def _get_subgraph_op(self, subgraph: int, index: int, op: Any) -> None:
        found = self.handles.get(subgraph, Subgraph)
        op[0] = self.handles.of(item(found.ops, index, "op"))
        if self._fast_ops is not None:
            ops = self.handles.memory(found, "ops", lambda: self._list_ops(subgraph, found))
            self._fast_ops.show(ops)

    def _list_ops(self, handle: int, subgraph: Subgraph) -> Any:
        """What the fast functions read; NULL where handles of ops are not in a row."""
        numbers = [self.handles.of(op) for op in subgraph.ops]
        if numbers != list(range(numbers[0], numbers[0] + STEP * len(numbers), STEP)):
            return ffi.NULL
        codes = [op.code.builtin_code for op in subgraph.ops]
        return FastOps.list_of(handle, numbers[0], codes)

    def _set_slots(self, functions: Mapping[str, Any]) -> None:
        for name, function in functions.items():
            setattr(self.table, name, function)
