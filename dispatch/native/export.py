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
from litert.abi.tables import make_callback

_LOG = logging.getLogger(__name__)

_FILLED = (
    "initialize", "get_vendor_id", "get_build_id", "get_capabilities", "device_context_create",
    "device_context_destroy", "get_input_requirements", "get_output_requirements",
    "register_tensor_buffer", "unregister_tensor_buffer", "invocation_context_create",
    "invocation_context_destroy", "attach_input", "attach_output", "detach_input", "detach_output",
    "invoke", "check_runtime_compatibility",
)  # fmt: skip
_OPTIONAL = {
    "set_scheduling_info": "invocation_context_set_scheduling_info",
    "set_options": "invocation_context_set_options",
}
"""Functions of a table by slots that are NULL where the vendor leaves the default: a run then costs less."""


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
        self._interface = ffi.new("LiteRtDispatchInterface*")
        self._fill(self._interface, {name: getattr(functions, name) for name in _FILLED})
        self._fill(
            self._interface,
            {
                slot: getattr(functions, name)
                for name, slot in _OPTIONAL.items()
                if is_filled(dispatch, name)
            },
        )
        if is_filled(dispatch, "stop_metrics_collection"):
            self._fill(self._interface, MetricsFunctions(functions).by_slot())
        self._async_interface: Any = ffi.NULL
        if dispatch.async_interface is not None:
            self._async_interface = ffi.new("LiteRtDispatchAsyncInterface*")
            self._fill(self._async_interface, AsyncFunctions(functions).by_slot())
        self._graph_interface: Any = ffi.NULL
        if dispatch.graph_interface is not None:
            self._graph_interface = ffi.new("LiteRtDispatchGraphInterface*")
            graphs = GraphFunctions(functions, dispatch.graph_interface)
            self._fill(self._graph_interface, graphs.by_slot())
        self._buffer_handlers: Any = ffi.NULL
        if functions.memory is not None:
            self._buffer_handlers = ffi.new("LiteRtCustomTensorBufferHandlersDef*")
            functions.memory.describe(self._buffer_handlers)
            self._fill(self._buffer_handlers, functions.memory.by_slot())
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

    def _fill(self, table: Any, functions: Mapping[str, Callable[..., Any]]) -> None:
        types = dict(ffi.typeof(table).item.fields)
        for slot, function in functions.items():
            callback = make_callback(types[slot].type, function, f"{self._vendor}, {slot}", _LOG)
            self._kept.append(callback)
            setattr(table, slot, ffi.cast(types[slot].type, callback))

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
