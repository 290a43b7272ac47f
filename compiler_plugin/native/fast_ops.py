"""`get_subgraph_op` in machine code: plugins that look for an op by its place ask it for all ops, for each op.

For the subgraph that was asked about last, a few instructions find the answer in a list; whatever else it is
asked, a wrong handle above all, goes on to Python. The code is in a library of our own, which one context has.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.elf_library import CODE, DATA, elf_library, load_library

_NAME = "litert_npu_get_subgraph_op"
_SONAME = "liblitert_npu_ops.so"
_LIST, _PYTHON = 0, 8  # offsets in the data: the current list, and the function to go on with

_has_owner = False


class FastOps:
    """The code, as one context has it.

    A list is a handle of a subgraph, the number of its ops, and their handles. It is never changed, so that a
    thread of the plugin sees one list or the other.

    Attributes:
      function: as a `get_subgraph_op`.
    """

    def __init__(self, function: Any, data: Any) -> None:
        """For `claim`."""
        self.function = function
        self._data = data

    @classmethod
    def claim(cls, slow: Any) -> FastOps | None:
        """Takes the code; None where another context has it.

        Args:
          slow: callback that answers where the code does not.
        """
        global _has_owner
        if _has_owner:
            return None
        _has_owner = True
        function = ffi.addressof(_load(), _NAME)
        start = int(ffi.cast("uintptr_t", function)) - CODE
        data = ffi.cast("uintptr_t*", start + DATA)
        data[_PYTHON // 8] = int(ffi.cast("uintptr_t", slow))
        return cls(function, data)

    @staticmethod
    def list_of(subgraph: int, ops: Sequence[int]) -> Any:
        """A list in C's memory, to be kept alive while it is shown."""
        return ffi.new("uintptr_t[]", [subgraph, len(ops), *ops])

    def show(self, ops: Any) -> None:
        """Answers from a list from now on."""
        self._data[_LIST // 8] = int(ffi.cast("uintptr_t", ops))

    def hide(self) -> None:
        """Answers nothing from now on."""
        self._data[_LIST // 8] = 0

    def release(self) -> None:
        """Leaves the code to others."""
        global _has_owner
        self.hide()
        _has_owner = False


@cache
def _load() -> Any:
    image = elf_library(_SONAME, [(_NAME, machine_code)], 16)
    return load_library(image, _SONAME, ffi.RTLD_LOCAL)


def machine_code(machine: str, at: int) -> bytes:
    """The function, for `elf_library`."""
    return _x86_64(at) if machine == "x86_64" else _aarch64(at)


def _x86_64(at: int) -> bytes:
    # rdi: subgraph, rsi: index, rdx: where the op's handle goes
    slow = at + 43

    def data(offset: int, end: int) -> bytes:  # a distance from the instruction's end
        return struct.pack("<i", DATA + offset - (at + end))

    code = b"\x48\x8b\x05" + data(_LIST, 7)  # mov rax, [list]
    for test, jump in (
        (b"\x48\x85\xc0", 0x74),  # test rax, rax; jz
        (b"\x48\x3b\x38", 0x75),  # cmp rdi, [rax]; jne
        (b"\x48\x3b\x70\x08", 0x73),  # cmp rsi, [rax + 8]; jae
        (b"\x48\x85\xd2", 0x74),  # test rdx, rdx; jz
    ):
        code += test
        code += bytes([jump, slow - (at + len(code) + 2)])
    code += b"\x48\x8b\x44\xf0\x10"  # mov rax, [rax + 8 * rsi + 16]
    code += b"\x48\x89\x02\x31\xc0\xc3"  # mov [rdx], rax; xor eax, eax; ret
    code = code.ljust(slow - at, b"\xcc")
    return code + b"\xff\x25" + data(_PYTHON, len(code) + 6)  # jmp [python]


def _aarch64(at: int) -> bytes:
    # x0: subgraph, x1: index, x2: where the op's handle goes
    slow = 13

    def label(word: int, index: int, target: int) -> int:
        return word | ((target - (at + 4 * index)) // 4 & 0x7FFFF) << 5

    to_slow = at + 4 * slow
    words = (
        label(0x58000009, 0, DATA + _LIST),  # ldr x9, list
        label(0xB4000009, 1, to_slow),  # cbz x9, slow
        0xA9402D2A,  # ldp x10, x11, [x9]
        0xEB0A001F,  # cmp x0, x10
        label(0x54000001, 4, to_slow),  # b.ne slow
        0xEB0B003F,  # cmp x1, x11
        label(0x54000002, 6, to_slow),  # b.hs slow
        label(0xB4000002, 7, to_slow),  # cbz x2, slow
        0x91004129,  # add x9, x9, 16
        0xF861792A,  # ldr x10, [x9, x1, lsl 3]
        0xF900004A,  # str x10, [x2]
        0x52800000,  # mov w0, 0
        0xD65F03C0,  # ret
        label(0x58000010, slow, DATA + _PYTHON),  # slow: ldr x16, python
        0xD61F0200,  # br x16
    )
    return struct.pack(f"<{len(words)}I", *words)
