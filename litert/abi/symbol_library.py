"""A shared library with the four functions that plugins look up by name (`compiler_options.h`).

The functions jump through slots, which callbacks of this process fill. The library is loaded with
RTLD_GLOBAL, so that `dlsym(RTLD_DEFAULT, ...)` and plugins that link the names find the functions.
Stock LiteRT's `LiteRtGetOpaqueOptions@VERS_1.0` in the same process is another symbol.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from litert.abi.definitions import ffi
from litert.abi.elf_library import CODE, DATA, Code, elf_library, load_library
from litert.abi.handles import address_of
from litert.abi.options_table import OptionsTable, options_table
from litert.abi.tables import make_callback

SYMBOLS: Mapping[str, Callable[..., object]] = {
    "LiteRtGetOpaqueOptions": OptionsTable.get_opaque_options,
    "LiteRtFindCompilerOptions": OptionsTable.find_compiler_options,
    "LiteRtGetCompilerOptionsNumCustomOpInfo": OptionsTable.get_num_custom_op_info,
    "LiteRtGetCompilerOptionsCustomOpInfo": OptionsTable.get_custom_op_info,
}
"""Python functions that answer each call for this process's options."""

_SONAME = "liblitert_npu_symbols.so"

_loading = threading.Lock()
_logger = logging.getLogger(__name__)


def load_symbols() -> Sequence[object]:
    """Makes the functions visible in this process, and returns the object that keeps them alive.

    A second call does nothing.

    Raises:
      LiteRtError: UNSUPPORTED, on an unknown machine; DYNAMIC_LOADING.
    """
    # With two libraries, all callers would find the first, and jump to freed functions.
    with _loading:
        return _load_symbols()


def symbol_library(machine: str = "") -> bytes:
    """Returns the library as the bytes of a file, for this machine or another machine that `elf_library` knows."""
    functions = [(name, jump_through(8 * index)) for index, name in enumerate(SYMBOLS)]
    return elf_library(_SONAME, functions, 8 * len(SYMBOLS), machine)


@cache
def _load_symbols() -> Sequence[object]:
    library = load_library(symbol_library(), _SONAME, ffi.RTLD_GLOBAL)
    kept: list[object] = [library]
    addresses = [ffi.addressof(library, name) for name in SYMBOLS]
    slots = ffi.cast("uintptr_t*", address_of(addresses[0]) + DATA - CODE)
    for index, (name, function) in enumerate(SYMBOLS.items()):
        bound = partial(function, options_table())
        callback = make_callback(ffi.typeof(addresses[index]), bound, name, _logger)
        slots[index] = address_of(callback)
        kept.append(callback)
    return kept


def jump_through(slot: int) -> Code:
    """Returns code that jumps through a slot of the data; the argument is the slot's offset in the data."""

    def code(machine: str, at: int) -> bytes:
        distance = DATA + slot - at
        if machine == "x86_64":
            return b"\xff\x25" + struct.pack("<i", distance - 6)
        load = 0x58000010 | (distance // 4) << 5  # ldr x16, slot
        return struct.pack("<2I", load, 0xD61F0200)  # br x16

    return code
