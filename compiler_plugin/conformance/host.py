"""The host that compiler plugins are checked in: its contexts, of both sizes that hosts have, and handles for a call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from compiler_plugin.native.graph_handles import GraphHandles
from compiler_plugin.native.graph_slots import PushedOps, model_slots, op_slots, tensor_slots
from compiler_plugin.native.option_slots import option_slots
from litert.abi.definitions import ffi
from litert.abi.guarded_memory import GuardedMemory
from litert.abi.options import options_table
from litert.abi.tables import fill
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.model.graph import Op

_VERSION = (1, 3)
_OLD_VERSION, _OLD_SIZE = (1, 1), 1104
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class HandedList:
    """An op list as the plugin gets it."""

    handle: Any
    ops: list[tuple[Op, int]]


@dataclass(frozen=True, slots=True, eq=False)
class HostCall:
    """Handles that are valid during one call of the plugin."""

    _handles: GraphHandles

    def handle(self, c_type: str, value: object) -> Any:
        """An object's handle."""
        return ffi.cast(c_type, self._handles.of(value))

    def op_list(self) -> HandedList:
        """A list for the plugin to push to."""
        pushed = PushedOps()
        return HandedList(self.handle("LiteRtOpList", pushed), pushed.ops)


@dataclass(slots=True, eq=False)
class PluginHost:
    """A compiler context, and what the plugin is told.

    Attributes:
      table: of release 2.3.0, with all slots.
    """

    compiler_options: CompilerOptions = field(default_factory=CompilerOptions)
    table: Any = None
    _handles: GraphHandles = field(default_factory=GraphHandles)
    _kept: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        slots: dict[str, Callable[..., Any]] = {**options_table().slots()}
        for make in (model_slots, op_slots, tensor_slots, option_slots):
            slots.update(make(self._handles))
        self.table = ffi.new("LiteRtCompilerContext*")
        self._kept.append(fill(self.table, slots, _VERSION, "the plugin", _LOG))

    def old_table(self) -> Any:
        """The context of a host that has fewer slots; nobody can read behind it."""
        memory = GuardedMemory(_OLD_SIZE, alignment=8)
        memory.view[:] = ffi.buffer(self.table, _OLD_SIZE)
        table = ffi.cast("LiteRtCompilerContext*", memory.address)
        table.abi_header.struct_size = _OLD_SIZE
        table.abi_header.major_version, table.abi_header.minor_version = _OLD_VERSION
        memory.make_read_only()
        self._kept.append(memory)
        return table

    def options(self) -> tuple[Any, Any]:
        """Environment options and options, as C has them."""
        table = options_table()
        given = table.put_options({}, self.compiler_options.custom_op_infos)
        environment = table.put_environment(EnvironmentOptions())
        return ffi.cast("LiteRtEnvironmentOptions", environment), ffi.cast("LiteRtOptions", given)

    @contextmanager
    def call(self) -> Iterator[HostCall]:
        """For one call of the plugin."""
        try:
            yield HostCall(self._handles)
        finally:
            self._handles.clear()
