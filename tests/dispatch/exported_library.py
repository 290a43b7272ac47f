"""A Python table behind its C functions, in this process, and our host in front of them."""

from __future__ import annotations

from typing import Any

from dispatch.api import Dispatch
from dispatch.native.dispatch_library import DispatchLibrary
from dispatch.native.export import ExportedTable, export_table
from dispatch.native.native_dispatch import NativeDispatch
from litert.abi.definitions import ffi


class ExportedLibrary(DispatchLibrary):
    """What a shared library would be."""

    def __init__(self, table: ExportedTable, name: str) -> None:
        self.path = self.name = name
        self._kept = table
        self.api = table.api
        self.register_asset, self.invoke_tapped = table.register_asset, table.invoke_tapped
        self.has_metrics = bool(table.api.interface.start_metrics_collection)


def through_c(dispatch: Dispatch[Any, Any]) -> Dispatch[Any, Any]:
    """The same vendor, as a host finds it behind LiteRT's C interface."""
    assert ffi.sizeof("LiteRtDispatchApi") == 56
    return NativeDispatch(ExportedLibrary(export_table(dispatch), dispatch.vendor_id))
