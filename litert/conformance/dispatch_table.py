"""Loads a vendor's dispatch table for the checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.api import Dispatch
from dispatch.native.dispatch_library import asset_slot, new_api, open_dispatch, plain_api
from dispatch.native.export import export_table
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError
from litert.conformance.dispatch_host import DispatchHost
from litert.conformance.vendor_calls import (
    CallTrace,
    VendorFunctions,
    expect_ok,
    find_symbol,
)

GET_API, REGISTER_ASSET = "LiteRtDispatchGetApi", "LiteRtDispatchRegisterAsset"
INVOKE_TAPPED = "LiteRtDispatchInvokeTapped"
_ASSET_FUNCTION = (
    "LiteRtStatus(*)(LiteRtDispatchDeviceContext, const char*, const LiteRtMemBuffer*)"
)

METRICS_SLOTS = (
    "start_metrics_collection", "stop_metrics_collection", "get_num_metrics", "get_metric",
    "destroy_metrics",
)  # fmt: skip
OPTIONAL_SLOTS = {
    "invocation_context_set_scheduling_info", "invocation_context_set_options", "get_hooks",
    *METRICS_SLOTS,
}  # fmt: skip


@dataclass(slots=True, eq=False, kw_only=True)
class CheckedTable(VendorFunctions):
    """A vendor's dispatch table, and the functions that the vendor's library exports.

    Attributes:
      api: The `LiteRtDispatchApi*` that the library has filled, or a longer struct that begins with this struct.
      host: The host that calls the vendor.
      options: `LiteRtOptions` for new device contexts; NULL for no options.
    """

    api: Any
    host: DispatchHost = field(default_factory=DispatchHost)
    options: Any = ffi.NULL


def load_table(path: str, trace: CallTrace) -> CheckedTable:
    """Loads a dispatch library as the host does, and gets the library's dispatch table."""
    library = trace.call("dlopen", open_dispatch, path)
    exported = {
        name: find_symbol(library, name) for name in (GET_API, REGISTER_ASSET, INVOKE_TAPPED)
    }
    if exported[GET_API] is None:
        raise BrokenRuleError(f"the library does not export {GET_API}")
    api = new_api()
    expect_ok(GET_API, trace.call(GET_API, exported[GET_API], plain_api(api)))
    exported[REGISTER_ASSET] = exported[REGISTER_ASSET] or asset_slot(api)
    return CheckedTable(functions={**_slots(api), **exported}, trace=trace, kept=library, api=api)


def make_table(vendor: Dispatch[Any, Any], trace: CallTrace) -> CheckedTable:
    """Makes a dispatch table in C from a Python vendor's table, and starts to record the vendor's errors."""
    made = export_table(vendor)
    functions = {
        **_slots(made.api),
        GET_API: ffi.cast("LiteRtStatus(*)(LiteRtDispatchApi*)", made.get_api),
        REGISTER_ASSET: ffi.cast(_ASSET_FUNCTION, made.register_asset),
        INVOKE_TAPPED: made.invoke_tapped,
    }
    table = CheckedTable(functions=functions, trace=trace, kept=made, api=made.api)
    table.error.listen()
    return table


def _slots(api: Any) -> dict[str, Any]:
    parts = [part for part in (api.interface, api.async_interface) if part]
    return {slot: getattr(part, slot) for part in parts for slot in dir(part)}
