"""Writes small shared libraries, function by function, because users may have no C compiler.

A library is an ELF file with two segments. The first segment is readable and executable, and contains headers,
tables and code. The second segment is writable, and contains data and the dynamic section. The code finds the data
by offsets from the code, so that the library works at any load address.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from typing import Any

from litert.abi.definitions import ffi
from litert.core.errors import LiteRtError
from litert.core.status import Status

DATA = 0x10000
"""Offset of the data from the start of the library, in bytes. It is the largest page size of aarch64."""

CODE = 0x800
"""Offset of the first function in bytes; the first function follows all tables."""
_HEADER_SIZE, _PROGRAM_HEADER_SIZE, _NUM_PROGRAM_HEADERS = 64, 56, 4
_SYMBOL_SIZE = 24
# Version of all symbols: references to other libraries never resolve to these
_VERSION = "LITERT_NPU"
_MACHINES = {"x86_64": 62, "aarch64": 183}
_FILL = {"x86_64": b"\xcc", "aarch64": b"\0"}  # filling that never runs

Code = Callable[[str, int], bytes]
"""A function that returns the code of a library function, for a machine and an offset from the library's start."""


def load_library(image: bytes, name: str, flags: int) -> Any:
    """Loads the bytes of a library with RTLD_NOW and further dlopen flags; the library stays loaded.

    Raises:
      LiteRtError: DYNAMIC_LOADING.
    """
    # Imported here, because most libraries are built before
    from litert.model.atomic_file import temporary_folder

    try:
        with temporary_folder() as folder:
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(image)
            return ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_NODELETE | flags)
    except OSError as error:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the loader cannot load the generated library for native vendors: {error}",
            os.environ.get("TMPDIR", "/tmp"),  # `gettempdir` fails without a folder
            "Set TMPDIR to a directory on a file system without the mount option noexec.",
        ) from error


def elf_library(
    name: str, functions: Sequence[tuple[str, Code]], data_size: int, machine: str = ""
) -> bytes:
    """Returns a library as the bytes of a file.

    Args:
      name: Name of the library, which must be unique in a process.
      functions: Functions that the library exports, by name, with their code.
      data_size: Size of the data in bytes, a multiple of 8; the data are zeros after loading.
      machine: Machine: `x86_64` or `aarch64`; "" for this machine.

    Raises:
      LiteRtError: UNSUPPORTED, if the machine is neither x86_64 nor aarch64.
    """
    machine = machine or os.uname().machine
    if machine not in _MACHINES:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"vendors in shared libraries (.so) cannot run on {machine} machines, only on "
            f"{' and '.join(_MACHINES)}",
        )
    code = b""
    places: dict[str, tuple[int, int]] = {}  # offset and size of each function
    for function, make in functions:
        body = make(machine, CODE + len(code))
        places[function] = (CODE + len(code), len(body))
        code += body.ljust(-(-len(body) // 16) * 16, _FILL[machine])
    names = b"\0" + b"".join(n.encode() + b"\0" for n in (*places, name, _VERSION))
    tables, tags = _tables(places, name, names)
    dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in tags)
    head = _headers(machine, CODE + len(code), data_size, len(dynamic)) + tables
    assert len(head) <= CODE
    image = head.ljust(CODE, b"\0") + code
    return image.ljust(DATA, b"\0") + bytes(data_size) + dynamic


def _tables(
    places: dict[str, tuple[int, int]], soname: str, names: bytes
) -> tuple[bytes, Sequence[tuple[int, int]]]:
    """Builds the symbol table with its hash table, versions and names, and the entries of the dynamic section."""
    count = len(places) + 1
    symbols = bytes(_SYMBOL_SIZE) + b"".join(
        struct.pack("<IBBHQQ", _place(names, name), 0x12, 0, 1, at, size)  # global function
        for name, (at, size) in places.items()
    )
    hashes = struct.pack(f"<{3 + count}I", 1, count, 1, *[0, *range(2, count), 0])  # one bucket
    versions = struct.pack(f"<{count}H", 0, *[2] * (count - 1))
    versions += b"\0" * (-len(versions) % 4)
    definitions = b"".join(  # version 1 is the library itself, version 2 is that of its symbols
        struct.pack(
            "<HHHHIIIII", 1, number == 1, number, 1, _elf_hash(text), 20, 28 * (number == 1),
            _place(names, text), 0,
        )
        for number, text in enumerate((soname, _VERSION), 1)
    )  # fmt: skip
    symbols_at = _HEADER_SIZE + _NUM_PROGRAM_HEADERS * _PROGRAM_HEADER_SIZE
    hashes_at = symbols_at + len(symbols)
    versions_at = hashes_at + len(hashes)
    definitions_at = versions_at + len(versions)
    tags = (
        (14, _place(names, soname)),  # DT_SONAME
        (4, hashes_at),  # DT_HASH
        (5, definitions_at + len(definitions)),  # DT_STRTAB
        (6, symbols_at),  # DT_SYMTAB
        (10, len(names)),  # DT_STRSZ
        (11, _SYMBOL_SIZE),  # DT_SYMENT
        (0x6FFFFFF0, versions_at),  # DT_VERSYM
        (0x6FFFFFFC, definitions_at),  # DT_VERDEF
        (0x6FFFFFFD, 2),  # DT_VERDEFNUM
        (0, 0),
    )
    return symbols + hashes + versions + definitions + names, tags


def _headers(machine: str, text_size: int, data_size: int, dynamic_size: int) -> bytes:
    identification = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little endian
    header = identification + struct.pack(
        "<HHIQQQIHHHHHH",
        3, _MACHINES[machine], 1, 0, _HEADER_SIZE, 0, 0, _HEADER_SIZE,
        _PROGRAM_HEADER_SIZE, _NUM_PROGRAM_HEADERS, 0, 0, 0,
    )  # fmt: skip
    read, write, execute = 4, 2, 1
    segments = (
        (1, read | execute, 0, text_size, DATA),
        (1, read | write, DATA, data_size + dynamic_size, DATA),
        (2, read | write, DATA + data_size, dynamic_size, 8),
        (0x6474E551, read | write, 0, 0, 16),  # PT_GNU_STACK: not executable
    )
    return header + b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, alignment)
        for kind, flags, at, size, alignment in segments
    )


def _place(names: bytes, name: str) -> int:
    return names.index(b"\0" + name.encode() + b"\0") + 1


def _elf_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value
