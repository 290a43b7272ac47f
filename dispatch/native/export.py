"""A dispatch table in Python as C functions, for hosts that know LiteRT's C interface alone.

In a shared library (`litert-npu vendor export`), or in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from dispatch.api import Dispatch, is_filled
from dispatch.native.exported.async_functions import AsyncFunctions
from dispatch.native.exported.functions import Functions
from dispatch.native.exported.graph_functions import GraphFunctions
from dispatch.native.exported.host import need
from dispatch.native.exported.metrics_functions import MetricsFunctions
from dispatch.table_check import check_table
from litert.abi.definitions import ffi
from litert.abi.tables import make_callback, slots_of

_LOG = logging.getLogger(__name__)

_OPTIONAL = ("set_scheduling_info", "set_options")
"""Functions of a table whose slots are NULL where the vendor leaves the default: a run then costs less."""


class ExportedTable:
    """A table's C functions, which live as long as this.

    Attributes:
      api: a filled `LiteRtDispatchApi*`.
      register_asset: `LiteRtDispatchRegisterAsset`.
      get_api: `LiteRtDispatchGetApi`.
    """

    def __init__(self, dispatch: Dispatch[Any, Any]) -> None:
        functions = Functions(dispatch)
        self._vendor = dispatch.vendor_id
        self._kept: list[object] = []
        slots = slots_of(functions, "LiteRtDispatchInterface")
        for name in _OPTIONAL:
            if not is_filled(dispatch, name):
                del slots[f"invocation_context_{name}"]
        if is_filled(dispatch, "stop_metrics_collection"):
            slots |= slots_of(MetricsFunctions(functions), "LiteRtDispatchInterface")
        self._interface = self._make("LiteRtDispatchInterface", slots)
        self._async_interface: Any = ffi.NULL
        if dispatch.async_interface is not None:
            self._async_interface = self._make_part(
                "LiteRtDispatchAsyncInterface", AsyncFunctions(functions)
            )
        self._graph_interface: Any = ffi.NULL
        if dispatch.graph_interface is not None:
            self._graph_interface = self._make_part(
                "LiteRtDispatchGraphInterface", GraphFunctions(functions, dispatch.graph_interface)
            )
        self._buffer_handlers: Any = ffi.NULL
        if functions.memory is not None:
            self._buffer_handlers = self._make_part(
                "LiteRtCustomTensorBufferHandlersDef", functions.memory
            )
            functions.memory.describe(self._buffer_handlers)
        self.api = ffi.new("LiteRtDispatchApi*")
        self._answer(self.api)
        self.get_api = self._export("LiteRtDispatchGetApi", self._get_api)
        self.register_asset = self._export("LiteRtDispatchRegisterAsset", functions.register_asset)

    def _get_api(self, api: Any) -> None:
        self._answer(need(api))

    def _answer(self, api: Any) -> None:
        api.abi_header.struct_size = ffi.sizeof("LiteRtDispatchApi")
        api.abi_header.major_version = 1
        api.version.minor = 1
        api.interface = self._interface
        api.async_interface = self._async_interface
        api.graph_interface = self._graph_interface
        api.tensor_buffer_handlers_def = self._buffer_handlers

    def _make_part(self, c_type: str, implementation: object) -> Any:
        return self._make(c_type, slots_of(implementation, c_type))

    def _make(self, c_type: str, functions: Mapping[str, Callable[..., Any]]) -> Any:
        table = ffi.new(f"{c_type}*")
        types = dict(ffi.typeof(c_type).fields)
        for slot, function in functions.items():
            callback = make_callback(types[slot].type, function, f"{self._vendor}, {slot}", _LOG)
            self._kept.append(callback)
            setattr(table, slot, ffi.cast(types[slot].type, callback))
        return table

    def _export(self, symbol: str, function: Callable[..., Any]) -> Any:
        callback = make_callback(_SYMBOLS[symbol], function, f"{self._vendor}, {symbol}", _LOG)
        self._kept.append(callback)
        return ffi.cast(_SYMBOLS[symbol], callback)


_SYMBOLS = {
    "LiteRtDispatchGetApi": ffi.typeof("LiteRtStatus(*)(LiteRtDispatchApi*)"),
    "LiteRtDispatchRegisterAsset": ffi.typeof(
        "LiteRtStatus(*)(LiteRtDispatchDeviceContext, const char*, const LiteRtMemBuffer*)"
    ),
}


def export_table(dispatch: Dispatch[Any, Any]) -> ExportedTable:
    """Makes C functions of a table.

    Raises:
      LiteRtError: DYNAMIC_LOADING or WRONG_VERSION, for a table of no use.
    """
    return ExportedTable(check_table(dispatch, where=f"class {type(dispatch).__qualname__}"))


_exported: dict[int, ExportedTable] = {}


def export_library(dispatch: Dispatch[Any, Any]) -> Mapping[str, Any]:
    """The functions that a dispatch library exports, by their symbols; they live as long as the process."""
    table = _exported[id(dispatch)] = export_table(dispatch)
    return {
        "LiteRtDispatchGetApi": table.get_api,
        "LiteRtDispatchRegisterAsset": table.register_asset,
    }
