"""Machine code that records which op is running.

In place of each op, a small function is called, which stores the op's number and jumps to the op's own function.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from litert.core.machine_code import Executable, for_machine

STUB_SIZE = 48


class OpMarks:
    """Functions that record which op is running.

    The object must live as long as other code may call the functions.

    Attributes:
      functions: Addresses of the functions that record ops, one for each original function.
    """

    def __init__(self, word: int, originals: Sequence[int]) -> None:
        """Makes them.

        Args:
          word: Address of a 32-bit word to which the number of the running op is written; numbers begin at 1.
          originals: Addresses of the ops' original functions.

        Raises:
          LiteRtError: UNSUPPORTED, if this kind of machine is not supported, or the system does not allow
            generated code.
        """
        self._code = Executable(marking_code(os.uname().machine, word, originals))
        first = self._code.address
        self.functions = range(first, first + len(originals) * STUB_SIZE, STUB_SIZE)


def marking_code(machine: str, word: int, originals: Sequence[int]) -> bytes:
    """Returns the code of a 48-byte function for each original function.

    The function stores the op's number, and jumps to the original function, which gets all arguments.
    """
    make = for_machine({"x86_64": _x86_64, "aarch64": _aarch64}, machine)
    numbered = enumerate(originals, 1)
    return b"".join(make(word, number, at).ljust(STUB_SIZE, b"\0") for number, at in numbered)


def _x86_64(word: int, number: int, original: int) -> bytes:
    return b"".join(
        (
            b"\x48\xb8" + struct.pack("<Q", word),  # mov rax, word
            b"\xc7\x00" + struct.pack("<I", number),  # mov dword [rax], number
            b"\x48\xb8" + struct.pack("<Q", original),  # mov rax, original
            b"\xff\xe0",  # jmp rax
        )
    )


def _aarch64(word: int, number: int, original: int) -> bytes:
    return struct.pack(
        "<6I2Q",
        0x580000C9,  # ldr x9, word
        0x5280000A | (number & 0xFFFF) << 5,  # movz w10, number
        0x72A0000A | (number >> 16) << 5,  # movk w10, number, lsl 16
        0xB900012A,  # str w10, [x9]
        0x58000089,  # ldr x9, original
        0xD61F0120,  # br x9
        word,
        original,
    )
