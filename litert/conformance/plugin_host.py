"""The host that calls compiler plugins in the checks, as an old or a new version of LiteRT would do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from compiler_plugin.native.compiler_context import CompilerContext
from compiler_plugin.native.native_plugin import option_payloads
from litert.abi.definitions import ffi
from litert.abi.options_table import options_table
from litert.abi.tables import make_callback
from litert.conformance.guarded_memory import GuardedMemory
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.status import Status

_OLD_VERSION, _OLD_SIZE = (1, 1), 1104
_LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class PluginHost:
    """A compiler context, and the options that a manufacturer's plugin gets."""

    manufacturer: str = ""
    compiler_options: CompilerOptions = field(default_factory=CompilerOptions)
    _context: CompilerContext = field(default_factory=lambda: CompilerContext("checked"))
    _kept: list[object] = field(default_factory=list)

    @property
    def table(self) -> Any:
        """The compiler context of LiteRT 2.3.0, with all functions."""
        return self._context.table

    def old_table(self) -> Any:
        """The compiler context of an older host: it has fewer functions, and a protected page follows it."""
        memory = GuardedMemory(_OLD_SIZE, alignment=8)
        memory.view[:] = ffi.buffer(self.table, _OLD_SIZE)
        table = ffi.cast("LiteRtCompilerContext*", memory.address)
        table.abi_header.struct_size = _OLD_SIZE
        table.abi_header.major_version, table.abi_header.minor_version = _OLD_VERSION
        memory.make_read_only()
        self._kept.append(memory)
        return table

    def failing_table(self, slot: str) -> Any:
        """A compiler context in which the function in `slot` always fails."""
        table = ffi.new("LiteRtCompilerContext*", self.table[0])
        function_type = dict(ffi.typeof("LiteRtCompilerContext").fields)[slot].type
        failing = make_callback(function_type, lambda *_: Status.RUNTIME_FAILURE, slot, _LOG)
        setattr(table, slot, ffi.cast(function_type, failing))
        self._kept += [table, failing]
        return table

    @cached_property
    def options(self) -> tuple[Any, Any]:
        """C handles of a `LiteRtEnvironmentOptions` object and a `LiteRtOptions` object."""
        given, table = self.compiler_options, options_table()
        payloads = option_payloads(self.manufacturer, given)
        return (
            ffi.cast("LiteRtEnvironmentOptions", table.put_environment(EnvironmentOptions())),
            ffi.cast("LiteRtOptions", table.put_options(payloads, given.custom_op_infos)),
        )

    @contextmanager
    def call(self) -> Iterator[Callable[[str, object], Any]]:
        """Makes C handles of objects, which are valid during one call of the plugin."""
        with self._context.showing(self):
            yield lambda c_type, value: ffi.cast(c_type, self._context.handles.of(value))
