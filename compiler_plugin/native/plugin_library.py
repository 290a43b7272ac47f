"""A compiler plugin in a shared library: its functions, found by name and called with their status checked."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.abi.vendor_library import open_library
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.version import ApiVersion
from litert.host.serving import native_call

FUNCTIONS = (
    "LiteRtGetCompilerPluginVersion",
    "LiteRtGetCompilerPluginSocManufacturer",
    "LiteRtCreateCompilerPlugin",
    "LiteRtDestroyCompilerPlugin",
    "LiteRtGetCompilerPluginSupportedHardware",
    "LiteRtGetNumCompilerPluginSupportedSocModels",
    "LiteRtGetCompilerPluginSupportedSocModel",
    "LiteRtGetCompilerPluginSDKVersion",
    "LiteRtCompilerPluginCheckCompilerCompatibility",
    "LiteRtCompilerPluginRegisterAllTransformations",
    "LiteRtCompilerPluginPartition",
    "LiteRtCompilerPluginCompile",
    "LiteRtDestroyCompiledResult",
    "LiteRtCompiledResultNumByteCodeModules",
    "LiteRtGetCompiledResultByteCode",
    "LiteRtGetNumCompiledResultCalls",
    "LiteRtGetCompiledResultCallInfo",
)
"""That each plugin has; LiteRtGetCompiledResultHandle, which stock knows, too, is for JIT without byte code."""

GET_REFUSAL = "LiteRtCompilerPluginGetRefusal"
IS_OUTPUT_DYNAMIC = "LiteRtIsCompiledResultOutputDynamic"
OPTIONAL = (GET_REFUSAL, IS_OUTPUT_DYNAMIC)
"""That a plugin may have for this host."""


class PluginLibrary:
    """A loaded library."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Loads a library as stock does, and looks its functions up."""
        self.path = os.fspath(path)
        library = open_plugin(self.path)
        self._functions: dict[str, Any] = {}
        for function in (*FUNCTIONS, *OPTIONAL):
            with suppress(ffi.error):
                self._functions[function] = getattr(library, function)
        missing = [function for function in FUNCTIONS if function not in self._functions]
        if missing:
            raise self.error(f"a compiler plugin that lacks {', '.join(missing)}")

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function that returns a status.

        Raises:
          LiteRtError: of the status, with the function's name, for any other than Ok.
        """
        check(self.call_plain(function, *arguments), f"{function} failed", self.path)

    def answer(self, function: str, c_type: str, *arguments: Any) -> Any:
        """What a function writes behind its other arguments, a value of a C type; raises as `call`."""
        answer = ffi.new(f"{c_type}*")
        self.call(function, *arguments, answer)
        return answer[0]

    def call_plain(self, function: str, *arguments: Any) -> Any:
        """Calls a function that returns no status, or one that is not checked."""
        with native_call(function):
            return self._functions[function](*arguments)

    def has(self, function: str) -> bool:
        """Whether the library has one of the functions that it need not have."""
        return function in self._functions

    def version(self) -> ApiVersion:
        """Of the interface that the plugin was written for."""
        version = self.answer("LiteRtGetCompilerPluginVersion", "LiteRtApiVersion")
        return ApiVersion(version.major, version.minor, version.patch)

    def soc_manufacturer(self) -> str:
        """Whose plugin it is; DYNAMIC_LOADING, where it does not say."""
        name = "LiteRtGetCompilerPluginSocManufacturer"
        return self.text(self.call_plain(name), f"{name} returns")

    def text(self, pointer: Any, what: str) -> str:
        """Text of the plugin's; NULL and what is no UTF-8 are errors, which begin with `what`."""
        if not pointer:
            raise self.error(f"{what} NULL, where text belongs")
        data = ffi.string(pointer)
        try:
            return str(data.decode())
        except UnicodeDecodeError:
            raise self.error(f"{what} {data!r:.100}, which is no UTF-8") from None

    def error(self, what: str, status: Status = Status.DYNAMIC_LOADING) -> LiteRtError:
        """The error for what only the vendor can repair."""
        return LiteRtError(status, what, self.path, VENDOR_REPAIRS)


def open_plugin(path: str) -> Any:
    """Loads a plugin with the flags of stock, which lets a library's own symbols go before all others.

    AddressSanitizer ends a process that loads with RTLD_DEEPBIND, since its own functions would be passed over. It
    is there where an author has it preloaded, for a library that was built with it.

    Raises:
      LiteRtError: as `open_library` does.
    """
    flags = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_NODELETE
    if not hasattr(ctypes.CDLL(None), "__asan_init"):
        flags |= os.RTLD_DEEPBIND
    with native_call("dlopen"):
        return open_library(path, flags, is_plugin=True)
