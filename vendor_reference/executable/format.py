"""The executable's byte format: what writer and reader agree on.

| bytes | what |
|---|---|
| 0-7 | magic |
| 8-11 | version, little-endian, as all numbers |
| 12-15 | 0 |
| 16-23 | bytes of the header |
| 24-31 | bytes of the whole module |
| 32- | header: one JSON object, UTF-8 |
| next multiple of 64 | data: constants, each from a multiple of 64; the header has offsets from the data's start |

The header is `{soc_model, functions, programs, constants}`, with the fields of `executable.py`; those that
have their default may be left out. Names of functions are unique, except that a function for fp16 arithmetic has
the name of the one before it whose place it takes. Shapes that a run tells are as in `shape_value.py`, a size as
in `sizes.py`, a dynamic output `[output, shape output, shape]`. A tensor type is `[element type's name,
dimensions]`, a scalar hex digits.
"""

from __future__ import annotations

import struct

MAGIC = b"LRT-REF\n"
VERSION = 3
ALIGNMENT = 64
PREFIX = struct.Struct("<8sIxxxxQQ")


def align(size: int) -> int:
    """The next multiple of `ALIGNMENT`."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
