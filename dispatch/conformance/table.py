"""A vendor's dispatch table as the checks call it: each call is traced, and answers what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.conformance.host import CheckedHost
from litert.abi.conformance.call_trace import CallTrace
from litert.abi.conformance.checks import BrokenRuleError
from litert.abi.conformance.last_error import LastError
from litert.abi.conformance.libraries import find_symbol, open_library
from litert.abi.conformance.statuses import is_status, status_name
from litert.abi.definitions import ffi

OPTIONAL_SLOTS = {
    "invocation_context_set_scheduling_info", "start_metrics_collection", "stop_metrics_collection",
    "get_num_metrics", "get_metric", "destroy_metrics", "invocation_context_set_options", "get_hooks",
}  # fmt: skip
METRICS_SLOTS = (
    "start_metrics_collection", "stop_metrics_collection", "get_num_metrics", "get_metric",
    "destroy_metrics",
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Table:
    """A vendor's functions.

    Attributes:
      get_api: what the library exports; None for a table that was made in this process.
      api: a `LiteRtDispatchApi*`, filled.
      register_asset: None where the vendor takes no assets.
      host: that the vendor runs in.
      kept: what has to live as long as its functions.
      strange: what has answered with a number that is no status, each in a phrase.
      error: what a table in Python said last.
      options: a `LiteRtOptions` that device contexts are made with; NULL for none.
    """

    get_api: Any
    api: Any
    register_asset: Any
    host: CheckedHost
    trace: CallTrace
    kept: object = None
    strange: list[str] = field(default_factory=list)
    error: LastError = field(default_factory=LastError)
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
        self.error.forget()
        status = int(self.trace.call(slot, function, *arguments))
        if not is_status(status):
            self.strange.append(f"{slot} answers {status}")
        return status

    def succeed(self, slot: str, *arguments: Any, part: str = "interface") -> None:
        """Calls a function, which must answer Ok."""
        expect_ok(slot, self.call(slot, *arguments, part=part), self.error)

    def fill(self, api: Any) -> int:
        """Calls the library's `LiteRtDispatchGetApi`."""
        return int(self.trace.call("LiteRtDispatchGetApi", self.get_api, api))

    def offer_asset(self, device: Any, name: Any, buffer: Any) -> int:
        """Calls `LiteRtDispatchRegisterAsset`."""
        return int(
            self.trace.call(
                "LiteRtDispatchRegisterAsset", self.register_asset, device, name, buffer
            )
        )

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


def expect_ok(function: str, status: int, error: LastError | None = None) -> None:
    """Raises where a function failed, with what the vendor said of it."""
    if status:
        told = error.told() if error else ""
        raise BrokenRuleError(f"{function} answers {status_name(status)}{told}")


def load_table(path: str, trace: CallTrace) -> Table:
    """Loads a dispatch library as LiteRT does, and has it fill its table."""
    library = open_library(path, ffi.RTLD_NOW | ffi.RTLD_LOCAL, trace)
    get_api = find_symbol(library, "LiteRtDispatchGetApi")
    if get_api is None:
        raise BrokenRuleError("it does not export LiteRtDispatchGetApi")
    register_asset = find_symbol(library, "LiteRtDispatchRegisterAsset")
    table = Table(get_api, new_api(), register_asset, CheckedHost(), trace, library)
    expect_ok("LiteRtDispatchGetApi", table.fill(table.api))
    return table


def new_api() -> Any:
    """A table as LiteRT hands it out to be filled: the header set, the rest zero."""
    api = ffi.new("LiteRtDispatchApi*")
    api.abi_header.struct_size = ffi.sizeof("LiteRtDispatchApi")
    api.abi_header.major_version = 1
    return api
