"""Exports a Python dispatch table as C functions, for hosts that know only LiteRT's C interface.

The C functions are called through a shared library (`litert-npu vendor export`), or in this process.
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
from dispatch.table_check import check_table
from litert.abi.definitions import ffi
from litert.abi.tables import make_callback, slots_of

_LOG = logging.getLogger(__name__)

_GET_API = ffi.typeof("LiteRtStatus(*)(LiteRtDispatchApi*)")
_REGISTER_ASSET = ffi.typeof(
    "LiteRtStatus(*)(LiteRtDispatchDeviceContext, const char*, const LiteRtMemBuffer*)"
)
_INVOKE_TAPPED = ffi.typeof(
    "LiteRtStatus(*)(LiteRtDispatchInvocationContext, LiteRtDispatchReceiveTensor, void*)"
)

_OPTIONAL = {
    "set_scheduling_info": ("invocation_context_set_scheduling_info",),
    "set_options": ("invocation_context_set_options",),
    "stop_metrics_collection": (
        "start_metrics_collection", "stop_metrics_collection", "get_num_metrics", "get_metric",
        "destroy_metrics",
    ),
}  # fmt: skip
"""Slots that are NULL if the vendor does not override their function, so that the host need not call it."""


class ExportedTable:
    """The C functions of a dispatch table, which live as long as this object.

    Attributes:
      api: The filled C function table, a `LiteRtDispatchApi*`.
      get_api: `LiteRtDispatchGetApi`.
      register_asset: `LiteRtDispatchRegisterAsset`.
      invoke_tapped: The C function `LiteRtDispatchInvokeTapped`; None if the vendor cannot pass intermediate
        tensors.
    """

    def __init__(self, dispatch: Dispatch[Any, Any]) -> None:
        functions = Functions(dispatch)
        self._vendor = dispatch.vendor_id
        self._kept: list[object] = []
        slots = slots_of(functions, "LiteRtDispatchInterface")
        for function, unused in _OPTIONAL.items():
            if not is_filled(dispatch, function):
                for slot in unused:
                    del slots[slot]
        self.api = api = ffi.new("LiteRtDispatchApi*")
        api.abi_header.struct_size = ffi.sizeof("LiteRtDispatchApi")
        api.abi_header.major_version = 1
        api.version.minor = 1
        api.interface = self._make("LiteRtDispatchInterface", slots)
        if dispatch.async_interface is not None:
            api.async_interface = self._make_part(
                "LiteRtDispatchAsyncInterface", AsyncFunctions(functions)
            )
        if dispatch.graph_interface is not None:
            api.graph_interface = self._make_part(
                "LiteRtDispatchGraphInterface", GraphFunctions(functions, dispatch.graph_interface)
            )
        if functions.memory is not None:
            handlers = self._make_part("LiteRtCustomTensorBufferHandlersDef", functions.memory)
            functions.memory.describe(handlers)
            api.tensor_buffer_handlers_def = handlers
        self.get_api = self._export("LiteRtDispatchGetApi", _GET_API, self._get_api)
        self.register_asset = self._export(
            "LiteRtDispatchRegisterAsset", _REGISTER_ASSET, functions.register_asset
        )
        self.invoke_tapped: Any = None
        if is_filled(dispatch, "invoke_tapped"):
            self.invoke_tapped = self._export(
                "LiteRtDispatchInvokeTapped", _INVOKE_TAPPED, functions.invoke_tapped
            )

    def _get_api(self, api: Any) -> None:
        need(api)[0] = self.api[0]

    def _make_part(self, c_type: str, implementation: object) -> Any:
        return self._make(c_type, slots_of(implementation, c_type))

    def _make(self, c_type: str, functions: Mapping[str, Callable[..., Any]]) -> Any:
        table = ffi.new(f"{c_type}*")
        self._kept.append(table)
        types = dict(ffi.typeof(c_type).fields)
        for slot, function in functions.items():
            setattr(table, slot, self._export(slot, types[slot].type, function))
        return table

    def _export(self, name: str, c_type: Any, function: Callable[..., Any]) -> Any:
        callback = make_callback(c_type, function, f"{self._vendor}, {name}", _LOG)
        self._kept.append(callback)
        return ffi.cast(c_type, callback)


def export_table(dispatch: Dispatch[Any, Any]) -> ExportedTable:
    """Makes the C functions for a dispatch table; raises an error if the table cannot be used."""
    return ExportedTable(check_table(dispatch, where=f"class {type(dispatch).__qualname__}"))


_exported: dict[int, ExportedTable] = {}


def export_library(dispatch: Dispatch[Any, Any]) -> Mapping[str, Any]:
    """Returns the C functions that a dispatch library must export, by symbol; the functions are never freed."""
    table = _exported[id(dispatch)] = export_table(dispatch)
    exported = {
        "LiteRtDispatchGetApi": table.get_api,
        "LiteRtDispatchRegisterAsset": table.register_asset,
    }
    if table.invoke_tapped is not None:
        exported["LiteRtDispatchInvokeTapped"] = table.invoke_tapped
    return exported
