"""Checks whether a shared object is for this machine, by its first bytes, before the shared object is loaded."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cache

from litert.core.errors import LiteRtError
from litert.core.status import Status

_HEADER = 20  # bytes: e_ident, e_type, e_machine of the ELF format, System V ABI, chapter 4
_HEADER_64, _SEGMENT_64 = "12xQ14xHH", "8xQ16xQ"  # after e_machine: e_phoff, e_phentsize, e_phnum
_HEADER_32, _SEGMENT_32 = "8xI10xHH", "4xI8xI"  # fields of a segment: p_offset, p_filesz
_SHARED_OBJECT = 3
_MACHINES = {3: "x86", 21: "64-bit PowerPC", 22: "S/390", 40: "ARM", 62: "x86-64", 183: "AArch64",
             243: "RISC-V", 258: "LoongArch"}  # fmt: skip
_KINDS = {1: "an object file", 2: "a program", 4: "a core dump"}
_HINT = "Build a shared object for this machine, as in cc -shared -fPIC layer.c -o layer.so."


def check_shared_object(data: memoryview, where: str) -> None:
    """Raises an error if a file is not a shared object that this process can load.

    Performs no check if the process itself is not an ELF program.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the file is not a shared object; UNSUPPORTED_RUNTIME_VERSION, if it is for
        another machine.
    """
    own = _own_header()
    if own is None:
        return
    header = bytes(data[:_HEADER])
    if len(header) < _HEADER or header[:4] != b"\x7fELF":
        raise LiteRtError(
            Status.INVALID_ARGUMENT, "the file is not a shared object (ELF)", where, _HINT
        )
    if header[4:6] != own[4:6] or _machine(header) != _machine(own):
        raise LiteRtError(
            Status.UNSUPPORTED_RUNTIME_VERSION,
            f"the shared object is for {_describe(header)}, but this machine is {_describe(own)}",
            where,
            _HINT,
        )
    kind = int.from_bytes(header[16:18], "little" if header[5] == 1 else "big")
    if kind != _SHARED_OBJECT:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file is not a shared object, but {_KINDS.get(kind, f'an ELF file of type {kind}')}",
            where,
            _HINT,
        )
    if _is_cut(data):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the shared object is incomplete: the file ends after {len(data)} bytes",
            where,
            "Copy the file again, or build it again.",
        )


def _is_cut(data: memoryview) -> bool:
    """Returns whether segments lie after the end of the file, which crashes loaders."""
    order = "<" if data[5] == 1 else ">"
    header, segment = (_HEADER_64, _SEGMENT_64) if data[4] == 2 else (_HEADER_32, _SEGMENT_32)
    try:
        start, size, count = struct.unpack_from(order + header, data, _HEADER)
        parts = [struct.unpack_from(order + segment, data, start + i * size) for i in range(count)]
    except struct.error:
        return True
    return any(offset + length > len(data) for offset, length in parts)


@cache
def _own_header() -> bytes | None:
    with suppress(OSError), open("/proc/self/exe", "rb") as file:
        header = file.read(_HEADER)
        return header if header[:4] == b"\x7fELF" else None
    return None


def _machine(header: bytes) -> int:
    (machine,) = struct.unpack_from("<H" if header[5] == 1 else ">H", header, 18)
    return int(machine)


def _describe(header: bytes) -> str:
    machine = _machine(header)
    bits = {1: "32-bit ", 2: ""}.get(header[4], "")
    return bits + _MACHINES.get(machine, f"machine {machine}")
