"""Loads a compiler plugin from a shared library, calls its functions by name, and checks their status."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.abi.vendor_library import open_library
from litert.core.counts import list_text
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
"""Functions that each plugin library must export.

Stock LiteRT also has the function LiteRtGetCompiledResultHandle. This host does not need it, because it is only
for compilation without byte code.
"""

GET_REFUSAL = "LiteRtCompilerPluginGetRefusal"
IS_OUTPUT_DYNAMIC = "LiteRtIsCompiledResultOutputDynamic"
OPTIONAL = (GET_REFUSAL, IS_OUTPUT_DYNAMIC)
"""Functions that a plugin library may export, and that only this project's host calls."""


class PluginLibrary:
    """A loaded plugin library."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Loads a library as stock LiteRT does, and finds the plugin's functions in the library."""
        self.path = os.fspath(path)
        library = open_plugin(self.path)
        self._functions: dict[str, Any] = {}
        for function in (*FUNCTIONS, *OPTIONAL):
            with suppress(ffi.error):
                self._functions[function] = getattr(library, function)
        missing = [function for function in FUNCTIONS if function not in self._functions]
        if missing:
            functions = list_text("function", missing)
            raise self.error(f"the compiler plugin does not export the required {functions}")

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function that returns a status.

        Raises:
          LiteRtError: If the function does not return Ok; the error has the returned status, and its message
            contains the function's name.
        """
        check(self.call_plain(function, *arguments), f"{function} failed", self.path)

    def answer(self, function: str, c_type: str, *arguments: Any) -> Any:
        """Same as `call`, but also returns the value that the function writes to its last argument."""
        answer = ffi.new(f"{c_type}*")
        self.call(function, *arguments, answer)
        return answer[0]

    def call_plain(self, function: str, *arguments: Any) -> Any:
        """Calls a function and returns its result, even if the result is an error status."""
        with native_call(function):
            return self._functions[function](*arguments)

    def has(self, function: str) -> bool:
        """Returns whether the library exports an optional function."""
        return function in self._functions

    def version(self) -> ApiVersion:
        """Returns the version of the plugin interface that the plugin was written for."""
        version = self.answer("LiteRtGetCompilerPluginVersion", "LiteRtApiVersion")
        return ApiVersion(version.major, version.minor, version.patch)

    def soc_manufacturer(self) -> str:
        """Returns the name of the plugin's manufacturer; raises DYNAMIC_LOADING if the plugin returns no name."""
        name = "LiteRtGetCompilerPluginSocManufacturer"
        return self.text(self.call_plain(name), f"{name} returns")

    def text(self, pointer: Any, what: str) -> str:
        """Converts a plugin's C string to a str; the error for NULL or invalid UTF-8 begins with `what`."""
        if not pointer:
            raise self.error(f"{what} NULL instead of a string")
        data = ffi.string(pointer)
        try:
            return str(data.decode())
        except UnicodeDecodeError:
            raise self.error(f"{what} {data!r:.100}, which is not valid UTF-8") from None

    def error(self, what: str, status: Status = Status.DYNAMIC_LOADING) -> LiteRtError:
        """Returns an error about a mistake in the plugin that only the vendor can repair."""
        return LiteRtError(status, what, self.path, VENDOR_REPAIRS)


def open_plugin(path: str) -> Any:
    """Loads a plugin library with stock LiteRT's dlopen flags, so that the library prefers its own symbols.

    If AddressSanitizer is in the process, the flag RTLD_DEEPBIND is omitted, because AddressSanitizer ends a
    process that loads a library with this flag. Plugin authors preload AddressSanitizer to test a library that was
    built with AddressSanitizer.

    Raises:
      LiteRtError: Any error of `open_library`.
    """
    flags = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_NODELETE
    if not hasattr(ctypes.CDLL(None), "__asan_init"):
        flags |= os.RTLD_DEEPBIND
    with native_call("dlopen"):
        return open_library(path, flags, is_plugin=True)
