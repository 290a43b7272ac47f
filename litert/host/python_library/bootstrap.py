"""The Python part of a library from `building`; imports the vendor, and passes the vendor's functions to C.

At the library's first call, `start.c` calls `load`, in a Python interpreter that the library or the program has
started.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
from collections.abc import Mapping
from typing import Any

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.host.child_side import load_function
from litert.host.extensions import EntryPoint, load_entry_point, load_file

_PACKAGES = ("litert", "compiler_plugin", "dispatch")
_REPORTING = "compiler_plugin.native"
"""Module whose log messages are shown from level INFO on, because this project's own host shows them, too.

For other modules, only warnings and errors are shown.
"""

_FLAGS_IN_STOCK = (
    "In stock LiteRT, set environment variables instead of flags: "
    "LITERT_NPU_CUSTOM_OP_INFO=op,path for --npu_custom_op_info=op,path, "
    "LITERT_NPU_OPTIONS=name=value for another flag of a plugin, "
    "LITERT_NPU_DISPATCH_OPTIONS=name=value for a flag of a driver"
)

_lock = threading.RLock()
_loaded: dict[int, str] = {}  # results of `load`, by the address of a library's table
_kept: list[object] = []  # functions to which C has pointers


def load(spec: Mapping[str, str], symbols: str, functions: int, close: int) -> str:
    """Fills the table of functions of a library, unless the table has already been filled.

    Args:
      spec: A mapping with `manufacturer`; `origin`, which is `module:attribute` or a file; `constant`, the name of
        the constant in this file; and `target`, as `module:function`. The target function takes the vendor's
        object, and returns cffi function pointers by symbol.
      symbols: Names of the symbols in the table, each followed by a newline.
      functions: Address of the table of functions; entries for symbols that `target` does not provide stay NULL.
      close: Address of a C function without arguments, which is called once before Python ends.

    Returns:
      Text of an error, or "" if there was no error.
    """
    with _lock:
        if functions not in _loaded:
            _loaded[functions] = _load(spec, symbols.split(), functions, close)
        return _loaded[functions]


def find_vendor(spec: Mapping[str, str]) -> Any:
    """Imports a vendor's object."""
    origin = spec["origin"]
    if origin.endswith(".py"):
        return load_file(origin, spec["constant"])
    module, _, attribute = origin.partition(":")
    packages = f"the packages of {sys.prefix}"
    return load_entry_point(EntryPoint(spec["manufacturer"], module, attribute, packages))


def _load(spec: Mapping[str, str], symbols: list[str], functions: int, close: int) -> str:
    try:
        _join_the_log(spec)
        vendor = find_vendor(spec)
        exported = load_function(spec["target"])(vendor)
        _kept.append(exported)
        _write(exported, symbols, functions, close)
    except LiteRtError as error:
        origin = spec["origin"]
        return str(error) if origin in str(error) else f"{origin}: {error}"
    except Exception as error:
        logging.getLogger(__name__).error("%s", describe(error), exc_info=error)
        return describe(error)
    return ""


def _write(exported: Mapping[str, Any], symbols: list[str], functions: int, close: int) -> None:
    from _cffi_backend import FFI  # cffi's own module would import a C parser

    ffi = FFI()
    unknown = sorted(set(exported) - set(symbols))
    if unknown:
        raise LiteRtError(
            Status.WRONG_VERSION,
            f"the library lacks the functions {', '.join(unknown)}",
            hint="Export the vendor again with the installed version of litert-npu.",
        )
    table = ffi.cast("void**", functions)
    for index, symbol in enumerate(symbols):
        if symbol in exported:
            table[index] = ffi.cast("void*", exported[symbol])
    atexit.register(ffi.cast("void(*)(void)", close))


class _StandardError(logging.Handler):
    """Writes to the host's log, which is standard error; a program with its own Python log stays unchanged.

    Logs once how stock LiteRT spells the flags that vendors' messages mention.
    """

    has_told_of_flags = False

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers or sys.stderr is None:
            return
        text = self.format(record) + "\n"
        if not _StandardError.has_told_of_flags and " --" in text:
            _StandardError.has_told_of_flags = True
            text += f"INFO: [litert_npu] {_FLAGS_IN_STOCK}\n"
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # the stream is closed: there is no place for the message
            return


def _join_the_log(spec: Mapping[str, str]) -> None:
    """Formats our log and the vendor's log like the rest of the host's log.

    Messages name their vendor, because a process may have several.
    """
    handler = _StandardError()
    handler.setFormatter(logging.Formatter("%(levelname)s: [litert_npu] %(message)s"))
    vendor = spec["origin"].partition(".")[0].partition(":")[0]
    for package in {*_PACKAGES, *([] if spec["origin"].endswith(".py") else [vendor])}:
        logger = logging.getLogger(package)
        if not any(isinstance(other, _StandardError) for other in logger.handlers):
            logger.addHandler(handler)
    if not logging.getLogger().handlers:  # otherwise, the program configures its log
        logging.getLogger(_REPORTING).setLevel(logging.INFO)
