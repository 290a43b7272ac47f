"""The compiler context: the table of functions that this host gives a plugin, over its own graph."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compiler_plugin.native.builder_slots import builder_slots
from compiler_plugin.native.graph_handles import GraphHandles
from compiler_plugin.native.graph_slots import model_slots, op_slots, tensor_slots
from compiler_plugin.native.option_getters import option_getters
from compiler_plugin.native.serialization import serialization_slots
from litert.abi.definitions import ffi
from litert.abi.options import options_table
from litert.abi.tables import fill

VERSION = (1, 3)
"""Of the table: LiteRT 2.3.0's."""

_logger = logging.getLogger(__name__)


class CompilerContext:
    """A table for one plugin, which may be called until the process ends.

    Attributes:
      table: the `LiteRtCompilerContext*`.
      handles: of the graph that the plugin is shown at the moment.
    """

    def __init__(self, vendor: str) -> None:
        self.handles = GraphHandles()
        self.table: Any = ffi.new("LiteRtCompilerContext*")
        slots = {
            **model_slots(self.handles),
            **op_slots(self.handles),
            **tensor_slots(self.handles),
            **option_getters(self.handles),
            **builder_slots(self.handles),
            **serialization_slots(self.handles),
            **options_table().slots(),
        }
        self._kept = fill(self.table, slots, VERSION, f"vendor '{vendor}'", _logger)

    @contextmanager
    def showing(self, value: object) -> Iterator[int]:
        """The handle of a subgraph, model or list, valid in the block; so is what it leads to."""
        try:
            yield self.handles.of(value)
        finally:
            self.handles.clear()
