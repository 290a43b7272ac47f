"""Exports a Python dispatch table to C functions in this process, and loads it with our host."""

from __future__ import annotations

from typing import Any

from dispatch.api import Dispatch
from dispatch.native.dispatch_library import DispatchLibrary
from dispatch.native.export import ExportedTable, export_table
from dispatch.native.native_dispatch import NativeDispatch
from litert.abi.definitions import ffi


class ExportedLibrary(DispatchLibrary):
    """An exported table in the place of a shared library."""

    def __init__(self, table: ExportedTable, name: str) -> None:
        self.path = self.name = name
        self._kept = table
        self.api = table.api
        self.register_asset, self.invoke_tapped = table.register_asset, table.invoke_tapped
        self.has_metrics = bool(table.api.interface.start_metrics_collection)


def through_c(dispatch: Dispatch[Any, Any]) -> Dispatch[Any, Any]:
    """Returns a vendor's table as a host sees it through LiteRT's C interface."""
    assert ffi.sizeof("LiteRtDispatchApi") == 56
    return NativeDispatch(ExportedLibrary(export_table(dispatch), dispatch.vendor_id))
