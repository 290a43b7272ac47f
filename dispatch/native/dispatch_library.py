"""Loads a native dispatch library with LiteRT's C interface, and checks its tables (`litert_npu/dispatch.h`)."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.abi.vendor_library import open_library
from litert.core.counts import list_text
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.version import DISPATCH_API_VERSION, ApiVersion

_LOG = logging.getLogger(__name__)

_HEADER_VERSION = (1, 0)  # of LiteRtDispatchApi
_API = ffi.typeof("LiteRtDispatchApiWithAssets")
_NAME = re.compile(r"(?:lib)?LiteRtDispatch[_-]?(.*)\.so")

# Stock LiteRT refuses to load or to run without these.
_NEEDED = (
    "initialize", "get_vendor_id", "get_build_id", "get_capabilities", "device_context_create",
    "get_input_requirements", "get_output_requirements", "register_tensor_buffer",
    "invocation_context_create", "attach_input", "attach_output", "invoke",
    "check_runtime_compatibility",
)  # fmt: skip
_WANTED = (
    "device_context_destroy", "unregister_tensor_buffer", "invocation_context_destroy",
    "detach_input", "detach_output",
)  # fmt: skip
_METRICS = (
    "start_metrics_collection", "stop_metrics_collection", "get_num_metrics", "get_metric",
    "destroy_metrics",
)  # fmt: skip


class DispatchLibrary:
    """A loaded dispatch library.

    Attributes:
      path: Path of the library's file.
      name: Vendor's name in the file name, such as `Acme` in `libLiteRtDispatch_Acme.so`; the whole file name if
        it contains no vendor's name.
      api: Function table filled by the library, as cffi's `LiteRtDispatchApiWithAssets*`.
      register_asset: The library's function `LiteRtDispatchRegisterAsset`, exported or in the table; None if it is
        missing.
      invoke_tapped: The library's function `LiteRtDispatchInvokeTapped`; None if the library does not export this
        function.
      has_metrics: Whether the library has all functions for metrics.
    """

    def __init__(self, path: str) -> None:
        """Loads a dispatch library; the library is never unloaded."""
        self.path = path
        file_name = os.path.basename(path)
        match = _NAME.fullmatch(file_name)
        self.name = (match[1] if match else "") or file_name
        library = open_dispatch(path)
        get_api = _find(library, "LiteRtDispatchGetApi")
        if get_api is None:
            raise self._broken("the dispatch library does not export LiteRtDispatchGetApi")
        self.api = new_api()
        check(get_api(plain_api(self.api)), "LiteRtDispatchGetApi failed", path)
        self._check_version()
        interface = self.api.interface
        if not interface:
            raise self._broken(
                "LiteRtDispatchGetApi of the dispatch library did not set the field `interface`"
            )
        if missing := _find_missing(interface, _NEEDED):
            raise self._broken(_lacking("interface", missing))
        exported = _find(library, "LiteRtDispatchRegisterAsset")
        self.register_asset = exported or asset_slot(self.api)
        self.invoke_tapped = _find(library, "LiteRtDispatchInvokeTapped")
        if missing := _find_missing(interface, _WANTED):
            _LOG.warning(
                "%s lacks %s: objects are not released on the device", path, ", ".join(missing)
            )
        missing = _find_missing(interface, _METRICS)
        self.has_metrics = not missing
        if missing and interface.start_metrics_collection:
            _LOG.warning(
                "%s lacks %s: metrics of the library are not used", path, ", ".join(missing)
            )

    def check_part(self, part: str) -> None:
        """Raises an error if the async or graph interface that the library declares is missing or incomplete."""
        table = getattr(self.api, part)
        if not table:
            raise self._broken(
                "the dispatch library declares a capability that "
                f"needs `{part}`, but this field is NULL"
            )
        names = [name for name, _ in ffi.typeof(table).item.fields]
        if missing := _find_missing(table, names):
            raise self._broken(_lacking(part, missing))

    def _check_version(self) -> None:
        version = self.api.version
        found = ApiVersion(version.major, version.minor, version.patch)
        if found != DISPATCH_API_VERSION:
            raise LiteRtError(
                Status.WRONG_VERSION,
                f"the dispatch library has version {found} of the dispatch API, but this host "
                f"needs version {DISPATCH_API_VERSION}",
                self.path,
                "Install a release of the vendor's library that has the host's version.",
            )

    def _broken(self, what: str) -> LiteRtError:
        return LiteRtError(Status.DYNAMIC_LOADING, what, self.path, VENDOR_REPAIRS)


def _lacking(part: str, functions: Sequence[str]) -> str:
    """Returns a clause about functions that are NULL in a table of a library."""
    return f"`{part}` of the dispatch library lacks the {list_text('function', functions)}"


def new_api() -> Any:
    """Returns a `LiteRtDispatchApiWithAssets*` for a library to fill; only the header is set."""
    api = ffi.new(ffi.getctype(_API, "*"))
    api.abi_header.struct_size = ffi.sizeof(_API)
    api.abi_header.major_version, api.abi_header.minor_version = _HEADER_VERSION
    return api


def plain_api(api: Any) -> Any:
    """Casts the result of `new_api` to `LiteRtDispatchApi*`, the type that all libraries know."""
    return ffi.cast("LiteRtDispatchApi*", api)


def asset_slot(api: Any) -> Any:
    """Returns `register_asset` of a filled table; None if the library does not know or fill this slot."""
    has_slot = api.abi_header.struct_size >= ffi.sizeof(_API)
    return (has_slot and api.register_asset) or None


def open_dispatch(path: str) -> Any:
    """Loads a dispatch library; raises the same errors as `open_library`."""
    # The real path, because the library finds other files relative to it.
    flags = os.RTLD_NOW | os.RTLD_LOCAL
    return open_library(os.path.realpath(path), flags, is_plugin=False)


def _find(library: Any, symbol: str) -> Any:
    try:
        return getattr(library, symbol)
    except ffi.error:
        return None


def _find_missing(table: Any, names: Sequence[str]) -> list[str]:
    return [name for name in names if not getattr(table, name)]
