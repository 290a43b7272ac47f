"""The Python side of a library from `building`: finds the vendor, and passes its functions to C.

`start.c` calls `load` at the library's first call, in an interpreter that the library or the
program started.
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
"""Name of the module whose log has the level INFO, because our own host reports its content.

Other modules log warnings and errors.
"""

_FLAGS_IN_STOCK = (
    "In stock LiteRT, --npu_custom_op_info=op,path is LITERT_NPU_CUSTOM_OP_INFO=op,path in the environment, "
    "another flag of a plugin LITERT_NPU_OPTIONS=name=value, of a driver LITERT_NPU_DISPATCH_OPTIONS=name=value"
)

_lock = threading.RLock()
_loaded: dict[int, str] = {}  # results of `load`, by the address of a library's table
_kept: list[object] = []  # functions that C has pointers to


def load(spec: Mapping[str, str], symbols: str, functions: int, close: int) -> str:
    """Fills a library's table of functions, unless the table is already full.

    Args:
      spec: `manufacturer`; `origin`, which is `module:attribute` or a file, and its `constant`;
        `target`, as `module:function`: this function takes the vendor's object and returns cffi's
        function pointers by symbol.
      symbols: Symbols of the table, each followed by a newline.
      functions: Address of the table; symbols that the target lacks stay NULL.
      close: Address of a function without arguments that runs once before Python ends.

    Returns:
      Text of an error, or "".
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
            f"the library lacks {', '.join(unknown)}",
            hint="Export the vendor again with the version of litert-npu that is installed now.",
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
