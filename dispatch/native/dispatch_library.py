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
      name: in the file's name, `Acme` in `libLiteRtDispatch_Acme.so`; else the file's name.
      api: The table that the library has filled, as cffi's `LiteRtDispatchApiWithAssets*`.
      register_asset: `LiteRtDispatchRegisterAsset`, or the table's slot; None where it has neither.
      invoke_tapped: `LiteRtDispatchInvokeTapped`; None where it has none.
      has_metrics: Whether the library has all functions for metrics.
    """

    def __init__(self, path: str) -> None:
        """Loads a dispatch library, which is never unloaded."""
        self.path = path
        file_name = os.path.basename(path)
        match = _NAME.fullmatch(file_name)
        self.name = (match[1] if match else "") or file_name
        library = open_dispatch(path)
        get_api = _find(library, "LiteRtDispatchGetApi")
        if get_api is None:
            raise self._broken("it does not export LiteRtDispatchGetApi")
        self.api = new_api()
        check(get_api(plain_api(self.api)), "LiteRtDispatchGetApi failed", path)
        self._check_version()
        interface = self.api.interface
        if not interface:
            raise self._broken("LiteRtDispatchGetApi has left `interface` empty")
        if missing := _find_missing(interface, _NEEDED):
            raise self._broken(f"its table has no {', '.join(missing)}")
        exported = _find(library, "LiteRtDispatchRegisterAsset")
        self.register_asset = exported or asset_slot(self.api)
        self.invoke_tapped = _find(library, "LiteRtDispatchInvokeTapped")
        if missing := _find_missing(interface, _WANTED):
            _LOG.warning("%s has no %s: what is made stays", path, ", ".join(missing))
        missing = _find_missing(interface, _METRICS)
        self.has_metrics = not missing
        if missing and interface.start_metrics_collection:
            _LOG.warning("%s has no %s: its metrics are not used", path, ", ".join(missing))

    def check_part(self, part: str) -> None:
        """Raises an error if the library declares an async or graph interface, but lacks functions of it."""
        table = getattr(self.api, part)
        if not table:
            raise self._broken(f"its capabilities name what `{part}` is for, which is empty")
        names = [name for name, _ in ffi.typeof(table).item.fields]
        if missing := _find_missing(table, names):
            raise self._broken(f"its `{part}` has no {', '.join(missing)}")

    def _check_version(self) -> None:
        version = self.api.version
        found = ApiVersion(version.major, version.minor, version.patch)
        if found != DISPATCH_API_VERSION:
            raise LiteRtError(
                Status.WRONG_VERSION,
                f"its dispatch API is of version {found}, and this host speaks {DISPATCH_API_VERSION}",
                self.path,
                "Install the vendor's library for this version.",
            )

    def _broken(self, what: str) -> LiteRtError:
        return LiteRtError(Status.DYNAMIC_LOADING, what, self.path, VENDOR_REPAIRS)


def new_api() -> Any:
    """Returns an empty `LiteRtDispatchApiWithAssets*` for the library to fill, with only the header set."""
    api = ffi.new(ffi.getctype(_API, "*"))
    api.abi_header.struct_size = ffi.sizeof(_API)
    api.abi_header.major_version, api.abi_header.minor_version = _HEADER_VERSION
    return api


def plain_api(api: Any) -> Any:
    """The table that all libraries know, with which that of `new_api` begins."""
    return ffi.cast("LiteRtDispatchApi*", api)


def asset_slot(api: Any) -> Any:
    """`register_asset` of a filled table; None where the library knows no such slot, or has left it empty."""
    has_slot = api.abi_header.struct_size >= ffi.sizeof(_API)
    return (has_slot and api.register_asset) or None


def open_dispatch(path: str) -> Any:
    """Loads a dispatch library; raises the errors of `open_library`."""
    # The file itself: what lies beside it is found from there.
    flags = os.RTLD_NOW | os.RTLD_LOCAL
    return open_library(os.path.realpath(path), flags, is_plugin=False)


def _find(library: Any, symbol: str) -> Any:
    try:
        return getattr(library, symbol)
    except ffi.error:
        return None


def _find_missing(table: Any, names: Sequence[str]) -> list[str]:
    return [name for name in names if not getattr(table, name)]
