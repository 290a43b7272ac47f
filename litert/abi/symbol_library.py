"""A shared library of the four functions that plugins look up by name; no C compiler is needed to make it.

The functions (`compiler_options.h`) jump through slots, which callbacks of this process fill. The library is an
ELF file of two segments: headers, symbols and code; then the slots and the dynamic section. It is loaded with
RTLD_GLOBAL, so that `dlsym(RTLD_DEFAULT, ...)` and plugins that link the names find them. Its symbols have a
version of their own: a reference to stock's `LiteRtGetOpaqueOptions@VERS_1.0` never ends here.
"""

from __future__ import annotations

import logging
import os
import platform
import struct
import tempfile
from collections.abc import Callable, Sequence
from functools import cache

from litert.abi.definitions import ffi
from litert.abi.options import options_table
from litert.abi.tables import make_callback
from litert.core.errors import LiteRtError
from litert.core.status import Status

SYMBOLS = (
    "LiteRtGetOpaqueOptions",
    "LiteRtFindCompilerOptions",
    "LiteRtGetCompilerOptionsNumCustomOpInfo",
    "LiteRtGetCompilerOptionsCustomOpInfo",
)

_SONAME = "liblitert_npu_symbols.so"
_VERSION = "LITERT_NPU"
_CODE = 0x400  # where it begins, behind all tables
_SEGMENT = 0x10000  # the largest page size of aarch64
_HEADER_SIZE, _PROGRAM_HEADER_SIZE, _NUM_PROGRAM_HEADERS = 64, 56, 4
_SYMBOL_SIZE, _DYNAMIC_SIZE, _CODE_SIZE = 24, 16, 16
_MACHINES = {"x86_64": 62, "aarch64": 183}

_logger = logging.getLogger(__name__)


@cache
def load_symbols() -> Sequence[object]:
    """Makes the functions findable in this process; a second call does nothing.

    Returns:
      What keeps them alive.

    Raises:
      LiteRtError: UNSUPPORTED, on a machine of another kind; FILE_IO or DYNAMIC_LOADING.
    """
    image = symbol_library(platform.machine())
    try:
        with tempfile.TemporaryDirectory(prefix="litert_npu_") as folder:
            path = os.path.join(folder, _SONAME)
            with open(path, "wb") as file:
                file.write(image)
            library = ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_GLOBAL | ffi.RTLD_NODELETE)
    except OSError as error:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the functions that plugins look up by name cannot be loaded: {error}",
            tempfile.gettempdir(),
            "Point TMPDIR to a folder whose files may be executed.",
        ) from error
    table = options_table()
    functions: Sequence[Callable[..., object]] = (
        table.get_opaque_options,
        table.find_compiler_options,
        table.get_num_custom_op_info,
        table.get_custom_op_info,
    )
    kept: list[object] = [library]
    for index, (name, function) in enumerate(zip(SYMBOLS, functions, strict=True)):
        address = ffi.addressof(library, name)
        callback = make_callback(ffi.typeof(address), function, name, _logger)
        slot = int(ffi.cast("uintptr_t", address)) + _slot_distance(index)
        ffi.cast("uintptr_t*", slot)[0] = int(ffi.cast("uintptr_t", callback))
        kept.append(callback)
    return kept


def symbol_library(machine: str) -> bytes:
    """The library as it lies in a file.

    Args:
      machine: `x86_64` or `aarch64`.

    Raises:
      LiteRtError: UNSUPPORTED, for any other.
    """
    if machine not in _MACHINES:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"native plugins on {machine}; they run on {' and '.join(_MACHINES)}",
        )
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*SYMBOLS, _SONAME, _VERSION))
    symbols_at = _HEADER_SIZE + _NUM_PROGRAM_HEADERS * _PROGRAM_HEADER_SIZE
    hash_at = symbols_at + (len(SYMBOLS) + 1) * _SYMBOL_SIZE
    hashes = _hash_table()
    versions_at = hash_at + len(hashes)
    versions = struct.pack(f"<{len(SYMBOLS) + 1}H", 0, *[2] * len(SYMBOLS)).ljust(12, b"\0")
    definitions_at = versions_at + len(versions)
    definitions = _version_definitions(names)
    names_at = definitions_at + len(definitions)
    tables = _symbol_table(names) + hashes + versions + definitions + names
    assert names_at + len(names) <= _CODE
    code = b"".join(_jump(machine, index) for index in range(len(SYMBOLS)))
    dynamic = _dynamic(symbols_at, hash_at, versions_at, definitions_at, names_at, names)
    headers = _headers(machine, _CODE + len(code), len(dynamic))
    image = (headers + tables).ljust(_CODE, b"\0") + code
    return image.ljust(_SEGMENT, b"\0") + bytes(8 * len(SYMBOLS)) + dynamic


def _slot_distance(index: int) -> int:
    """From a function to its slot, in bytes."""
    return _SEGMENT + 8 * index - (_CODE + _CODE_SIZE * index)


def _jump(machine: str, index: int) -> bytes:
    """Code that goes on where the slot points."""
    distance = _slot_distance(index)
    if machine == "x86_64":
        return (b"\xff\x25" + struct.pack("<i", distance - 6)).ljust(_CODE_SIZE, b"\xcc")
    load = 0x58000010 | (distance // 4) << 5  # ldr x16, slot
    return struct.pack("<4I", load, 0xD61F0200, 0xD503201F, 0xD503201F)  # br x16; nop; nop


def _headers(machine: str, text_size: int, dynamic_size: int) -> bytes:
    identification = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little endian
    header = identification + struct.pack(
        "<HHIQQQIHHHHHH",
        3, _MACHINES[machine], 1, 0, _HEADER_SIZE, 0, 0, _HEADER_SIZE,
        _PROGRAM_HEADER_SIZE, _NUM_PROGRAM_HEADERS, 0, 0, 0,
    )  # fmt: skip
    slots_size = 8 * len(SYMBOLS)
    read, write, execute = 4, 2, 1
    segments = (
        (1, read | execute, 0, text_size, _SEGMENT),
        (1, read | write, _SEGMENT, slots_size + dynamic_size, _SEGMENT),
        (2, read | write, _SEGMENT + slots_size, dynamic_size, 8),
        (0x6474E551, read | write, 0, 0, 16),  # PT_GNU_STACK: not executable
    )
    return header + b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, alignment)
        for kind, flags, at, size, alignment in segments
    )


def _symbol_table(names: bytes) -> bytes:
    table = bytes(_SYMBOL_SIZE)
    for index, name in enumerate(SYMBOLS):
        address = _CODE + _CODE_SIZE * index
        place = _place(names, name)
        table += struct.pack("<IBBHQQ", place, 0x12, 0, 1, address, _CODE_SIZE)  # global function
    return table


def _hash_table() -> bytes:
    """One bucket with all symbols in a chain."""
    count = len(SYMBOLS) + 1
    chain = [0, *range(2, count), 0]
    return struct.pack(f"<{3 + count}I", 1, count, 1, *chain)


def _version_definitions(names: bytes) -> bytes:
    """Version 1 is the library itself, version 2 that of its symbols."""
    table = b""
    for number, name in enumerate((_SONAME, _VERSION), 1):
        is_last = number == 2
        table += struct.pack(
            "<HHHHIII", 1, number == 1, number, 1, _elf_hash(name), 20, 0 if is_last else 28
        )
        table += struct.pack("<II", _place(names, name), 0)
    return table


def _dynamic(
    symbols_at: int,
    hash_at: int,
    versions_at: int,
    definitions_at: int,
    names_at: int,
    names: bytes,
) -> bytes:
    entries = (
        (14, _place(names, _SONAME)),  # DT_SONAME
        (4, hash_at),  # DT_HASH
        (5, names_at),  # DT_STRTAB
        (6, symbols_at),  # DT_SYMTAB
        (10, len(names)),  # DT_STRSZ
        (11, _SYMBOL_SIZE),  # DT_SYMENT
        (0x6FFFFFF0, versions_at),  # DT_VERSYM
        (0x6FFFFFFC, definitions_at),  # DT_VERDEF
        (0x6FFFFFFD, 2),  # DT_VERDEFNUM
        (0, 0),
    )
    return b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)


def _place(names: bytes, name: str) -> int:
    return names.index(b"\0" + name.encode() + b"\0") + 1


def _elf_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value
