"""Makes a shared library with the four functions of `compiler_options.h`, which plugins look up by name.

The code of each function jumps to an address that it reads from the library's data. This process stores the
address of a callback there. The library is loaded with RTLD_GLOBAL, so that `dlsym(RTLD_DEFAULT, ...)` and plugins
that link the functions find them. Stock LiteRT's function `LiteRtGetOpaqueOptions@VERS_1.0` in the same process is
a different symbol.
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
"""The Python functions that the four C functions call."""

_SONAME = "liblitert_npu_symbols.so"

_loading = threading.Lock()
_logger = logging.getLogger(__name__)


def load_symbols() -> Sequence[object]:
    """Loads the library into this process, and returns the object that keeps its functions alive.

    A second call does nothing.

    Raises:
      LiteRtError: UNSUPPORTED, if the machine is unknown; DYNAMIC_LOADING, if the library does not load.
    """
    # With two libraries, all callers would find the first, and jump to freed functions.
    with _loading:
        return _load_symbols()


def symbol_library(machine: str = "") -> bytes:
    """Returns the bytes of the library's file, for this machine or another machine of `elf_library`."""
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
    """Returns code that jumps to the address at an offset in the library's data."""

    def code(machine: str, at: int) -> bytes:
        distance = DATA + slot - at
        if machine == "x86_64":
            return b"\xff\x25" + struct.pack("<i", distance - 6)
        load = 0x58000010 | (distance // 4) << 5  # ldr x16, slot
        return struct.pack("<2I", load, 0xD61F0200)  # br x16

    return code
