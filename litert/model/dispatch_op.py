"""The custom op `DISPATCH_OP`, which stands for an NPU call; its options have stock LiteRT's format.

The options are a FlexBuffer map `{bytecode_offset, bytecode_size, name}`. The offset and the size always take 64
bits, so that the writer can set their values after it has laid out the file (LiteRT:
`litert/core/dispatch_op_schema.cc`). The options are encoded without the package `flatbuffers`, because importing
it imports NumPy and delays the start of commands.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.flexbuffer import read_flexbuffer
from litert.model.graph import Op

DISPATCH_OP = "DISPATCH_OP"

_SIZE_KEY, _OFFSET_KEY, _NAME_KEY = "bytecode_size", "bytecode_offset", "name"
_MAP_64, _UINT_64 = 9 << 2 | 3, 2 << 2 | 3  # type and width as FlexBuffers pack them
_STRING = 5 << 2


class DispatchOptions(NamedTuple):
    """Options of an NPU call: byte code offset and size (0 until the layout), and the function's name."""

    bytecode_offset: int
    bytecode_size: int
    name: str


def is_dispatch_op(op: Op) -> bool:
    """Returns whether an op is an NPU call."""
    return op.is_custom and op.code.custom_code == DISPATCH_OP


def write_dispatch_options(options: DispatchOptions) -> bytes:
    """Encodes an NPU call's options to the same bytes as stock LiteRT; their number depends only on the name."""
    name = options.name.encode()
    if b"\0" in name:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the name {options.name!r} of an NPU call contains a zero byte",
        )
    out = bytearray()
    keys = {}
    for key in (_SIZE_KEY, _OFFSET_KEY, _NAME_KEY):
        keys[key] = len(out)
        out += key.encode() + b"\0"
    width = _width(len(name))
    _align(out, width)
    out += len(name).to_bytes(width, "little")
    name_at = len(out)
    out += name + b"\0"

    _align(out, 8)
    out += struct.pack("<Q", len(keys))
    keys_at = len(out)
    for key in (_OFFSET_KEY, _SIZE_KEY, _NAME_KEY):  # sorted, as a map's keys are
        out += struct.pack("<Q", len(out) - keys[key])
    out += struct.pack("<QQQ", len(out) - keys_at, 8, len(keys))
    values_at = len(out)
    out += struct.pack("<QQ", options.bytecode_offset, options.bytecode_size)
    out += struct.pack("<Q", len(out) - name_at)
    out += bytes((_UINT_64, _UINT_64, _STRING | width.bit_length() - 1))

    # The root is as wide as its distance to the map.
    root = _width(len(out) - values_at)
    _align(out, root)
    out += (len(out) - values_at).to_bytes(root, "little")
    out += bytes((_MAP_64, root))
    return bytes(out)


def read_dispatch_options(data: bytes | memoryview, where: str = "") -> DispatchOptions:
    """Decodes options that stock LiteRT or `write_dispatch_options` wrote; others raise INVALID_FLATBUFFER."""
    options = read_flexbuffer(data, where)
    if isinstance(options, dict):
        offset, size, name = (options.get(key) for key in (_OFFSET_KEY, _SIZE_KEY, _NAME_KEY))
        if (
            isinstance(offset, int)
            and isinstance(size, int)
            and isinstance(name, str)
            and min(offset, size) >= 0
        ):
            return DispatchOptions(offset, size, name)
    raise LiteRtError(
        Status.INVALID_FLATBUFFER,
        f"a {DISPATCH_OP} op has options without {_OFFSET_KEY}, {_SIZE_KEY} or {_NAME_KEY}",
        where,
        "Compile the model again.",
    )


def find_byte_code(file: Blob, options: DispatchOptions, where: str = "") -> Blob:
    """Returns the byte code module of an NPU call in a compiled file.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the byte code module is empty, or exceeds the file.
    """
    start, end = options.bytecode_offset, options.bytecode_offset + options.bytecode_size
    if not 0 < start < end <= file.size:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"the byte code of NPU call '{options.name}' is at bytes {start} to {end}, but the "
            f"file has {file.size} bytes",
            where,
            "The file is damaged or incomplete: compile the model again.",
        )
    return file.part(start, options.bytecode_size)


def _width(value: int) -> int:
    """Returns the number of bytes of an unsigned number in a FlexBuffer: 1, 2, 4 or 8."""
    return next(width for width in (1, 2, 4, 8) if value < 1 << 8 * width)


def _align(out: bytearray, width: int) -> None:
    out += bytes(-len(out) % width)
