"""A vendor's dispatch table as the checks call it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.api import Dispatch
from dispatch.native.export import export_table
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError
from litert.conformance.dispatch_host import DispatchHost
from litert.conformance.vendor_calls import (
    CallTrace,
    VendorCalls,
    expect_ok,
    find_symbol,
    open_library,
)

_REGISTER_ASSET = (
    "LiteRtStatus(*)(LiteRtDispatchDeviceContext, const char*, const LiteRtMemBuffer*)"
)

OPTIONAL_SLOTS = {
    "invocation_context_set_scheduling_info", "start_metrics_collection", "stop_metrics_collection",
    "get_num_metrics", "get_metric", "destroy_metrics", "invocation_context_set_options", "get_hooks",
}  # fmt: skip
METRICS_SLOTS = (
    "start_metrics_collection", "stop_metrics_collection", "get_num_metrics", "get_metric",
    "destroy_metrics",
)  # fmt: skip


@dataclass(slots=True, eq=False, kw_only=True)
class CheckedTable(VendorCalls):
    """A vendor's table.

    Attributes:
      api: a `LiteRtDispatchApi*`, filled.
      register_asset: None where the vendor takes no assets.
      get_api: what the library exports; None for a table that was made in this process.
      host: that the vendor runs in.
      options: a `LiteRtOptions` that device contexts are made with; NULL for none.
    """

    api: Any
    register_asset: Any
    get_api: Any = None
    host: DispatchHost = field(default_factory=DispatchHost)
    options: Any = ffi.NULL

    def has(self, slot: str, part: str = "interface") -> bool:
        """Whether a slot is filled."""
        interface = getattr(self.api, part)
        return bool(interface) and bool(getattr(interface, slot))

    def call(self, slot: str, *arguments: Any, part: str = "interface") -> int:
        """Calls a function of a part; the status that it returns."""
        function = getattr(getattr(self.api, part), slot)
        if not function:
            raise BrokenRuleError(f"{slot} is NULL")
        return self.ask(slot, function, *arguments)

    def succeed(self, slot: str, *arguments: Any, part: str = "interface") -> None:
        """Calls a function, which must answer Ok."""
        expect_ok(slot, self.call(slot, *arguments, part=part), self.error)

    def fill(self, api: Any) -> int:
        """Calls the library's `LiteRtDispatchGetApi`."""
        return int(self.trace.call("LiteRtDispatchGetApi", self.get_api, api))

    def offer_asset(self, device: Any, name: Any, buffer: Any) -> int:
        """Calls `LiteRtDispatchRegisterAsset`."""
        function = "LiteRtDispatchRegisterAsset"
        return int(self.trace.call(function, self.register_asset, device, name, buffer))

    def text(self, slot: str) -> bytes | None:
        """What one of the functions that name the library answers; None for NULL."""
        answer = ffi.new("const char**")
        self.succeed(slot, answer)
        return ffi.string(answer[0]) if answer[0] else None

    def capabilities(self) -> int:
        """Bits of what the vendor says that it can do."""
        answer = ffi.new("int*")
        self.succeed("get_capabilities", answer)
        return int(answer[0])


def load_table(path: str, trace: CallTrace) -> CheckedTable:
    """Loads a dispatch library as LiteRT does, and has it fill its table."""
    library = open_library(path, ffi.RTLD_NOW | ffi.RTLD_LOCAL, trace)
    get_api = find_symbol(library, "LiteRtDispatchGetApi")
    if get_api is None:
        raise BrokenRuleError("it does not export LiteRtDispatchGetApi")
    register_asset = find_symbol(library, "LiteRtDispatchRegisterAsset")
    table = CheckedTable(
        trace=trace, kept=library, api=new_api(), register_asset=register_asset, get_api=get_api
    )
    expect_ok("LiteRtDispatchGetApi", table.fill(table.api))
    return table


def make_table(vendor: Dispatch[Any, Any], trace: CallTrace) -> CheckedTable:
    """The table that this project makes of a vendor's in Python, whose errors are heard from now on."""
    exported = export_table(vendor)
    table = CheckedTable(
        trace=trace,
        kept=exported,
        api=exported.api,
        register_asset=ffi.cast(_REGISTER_ASSET, exported.register_asset),
        get_api=ffi.cast("LiteRtStatus(*)(LiteRtDispatchApi*)", exported.get_api),
    )
    table.error.listen()
    return table


def new_api() -> Any:
    """A table as LiteRT hands it out to be filled: the header set, the rest zero."""
    api = ffi.new("LiteRtDispatchApi*")
    api.abi_header.struct_size = ffi.sizeof("LiteRtDispatchApi")
    api.abi_header.major_version = 1
    return api
