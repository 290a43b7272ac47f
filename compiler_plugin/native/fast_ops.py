"""`get_subgraph_op` and `get_op_code` in machine code: plugins ask them for each op, once for each op.

For the subgraph that was asked about last, a few instructions find the answer in a list; whatever else they are
asked, a wrong handle above all, goes on to Python. The code is in a library of our own, which one context has.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.elf_library import CODE, DATA, elf_library, load_library
from litert.abi.handles import STEP

FUNCTIONS = ("get_subgraph_op", "get_op_code")

_SONAME = "liblitert_npu_ops.so"
_LIST = 0  # offsets in the data: the current list, and where each function goes on
_PYTHON = {name: 8 * number for number, name in enumerate(FUNCTIONS, 1)}

_has_owner = False
assert STEP == 1 << 4  # what the code shifts by


class FastOps:
    """The code, as one context has it.

    A list is a subgraph's handle, how many ops it has, the first one's handle, and their codes; handles of ops
    ascend by `STEP`. It is never changed, so that a thread of the plugin sees one list or another.

    Attributes:
      functions: by slot, as the context has them.
    """

    def __init__(self, functions: dict[str, Any], data: Any) -> None:
        """For `claim`."""
        self.functions = functions
        self._data = data

    @classmethod
    def claim(cls, slow: dict[str, Any]) -> FastOps | None:
        """Takes the code; None where another context has it.

        Args:
          slow: callbacks that answer where the code does not, by slot.
        """
        global _has_owner
        if _has_owner:
            return None
        _has_owner = True
        functions = {name: ffi.addressof(_load(), f"litert_npu_{name}") for name in FUNCTIONS}
        start = int(ffi.cast("uintptr_t", functions[FUNCTIONS[0]])) - CODE
        data = ffi.cast("uintptr_t*", start + DATA)
        for name, callback in slow.items():
            data[_PYTHON[name] // 8] = int(ffi.cast("uintptr_t", callback))
        return cls(functions, data)

    @staticmethod
    def list_of(subgraph: int, first: int, codes: Sequence[int]) -> Any:
        """A list in C's memory, to be kept alive while it is shown."""
        packed = struct.pack(f"<3Q{len(codes)}i", subgraph, len(codes), first, *codes)
        memory = ffi.new("uint64_t[]", -(-len(packed) // 8))
        ffi.memmove(memory, packed, len(packed))
        return memory

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
    functions = [
        ("litert_npu_get_subgraph_op", subgraph_op_code),
        ("litert_npu_get_op_code", op_code_code),
    ]
    return load_library(elf_library(_SONAME, functions, 24), _SONAME, ffi.RTLD_LOCAL)


def subgraph_op_code(machine: str, at: int) -> bytes:
    """`get_subgraph_op(subgraph, index, op)`, for `elf_library`."""
    slow = _PYTHON["get_subgraph_op"]
    if machine == "x86_64":
        return _x86_64(
            at,
            slow,
            b"\x48\x3b\x38\x75",  # cmp rdi, [rax]; jne
            b"\x48\x3b\x70\x08\x73",  # cmp rsi, [rax + 8]; jae
            b"\x48\x85\xd2\x74",  # test rdx, rdx; jz
            b"\x48\xc1\xe6\x04"  # shl rsi, 4
            b"\x48\x03\x70\x10"  # add rsi, [rax + 16]
            b"\x48\x89\x32",  # mov [rdx], rsi
        )
    return _aarch64(
        at,
        slow,
        (0xF940012A,),  # ldr x10, [x9]
        (0xEB0A001F, 0x54000001),  # cmp x0, x10; b.ne
        (0xA940AD2A, 0xEB0A003F, 0x54000002),  # ldp x10, x11, [x9, 8]; cmp x1, x10; b.hs
        (0xB4000002,),  # cbz x2
        (0x8B01116A, 0xF900004A),  # add x10, x11, x1, lsl 4; str x10, [x2]
    )


def op_code_code(machine: str, at: int) -> bytes:
    """`get_op_code(op, code)`, for `elf_library`."""
    slow = _PYTHON["get_op_code"]
    if machine == "x86_64":
        return _x86_64(
            at,
            slow,
            b"\x48\x89\xf9"  # mov rcx, rdi
            b"\x48\x2b\x48\x10"  # sub rcx, [rax + 16]
            b"\xf6\xc1\x0f\x75",  # test cl, 15; jnz
            b"\x48\xc1\xe9\x04"  # shr rcx, 4
            b"\x48\x3b\x48\x08\x73",  # cmp rcx, [rax + 8]; jae
            b"\x48\x85\xf6\x74",  # test rsi, rsi; jz
            b"\x8b\x44\x88\x18"  # mov eax, [rax + 4 * rcx + 24]
            b"\x89\x06",  # mov [rsi], eax
        )
    return _aarch64(
        at,
        slow,
        (0xA940AD2A, 0xCB0B000C),  # ldp x10, x11, [x9, 8]; sub x12, x0, x11
        (0xF2400D9F, 0x54000001),  # tst x12, 15; b.ne
        (0xD344FD8C, 0xEB0A019F, 0x54000002),  # lsr x12, x12, 4; cmp x12, x10; b.hs
        (0xB4000001,),  # cbz x1
        (
            0x91006129,
            0xB86C792A,
            0xB900002A,
        ),  # add x9, x9, 24; ldr w10, [x9, x12, lsl 2]; str w10, [x1]
    )


def _x86_64(at: int, slow: int, *steps: bytes) -> bytes:
    """Code with the list in rax; all steps but the last end in a jump, whose distance is put behind it."""
    body = b"\x48\x85\xc0\x74"  # test rax, rax; jz
    *tests, answer = (body, *steps)
    size = 7 + sum(len(test) + 1 for test in tests) + len(answer) + 3
    code = b"\x48\x8b\x05" + struct.pack("<i", DATA + _LIST - (at + 7))  # mov rax, [list]
    for test in tests:
        code += test
        code += bytes([size - (len(code) + 1)])
    code += answer + b"\x31\xc0\xc3"  # xor eax, eax; ret
    return code + b"\xff\x25" + struct.pack("<i", DATA + slow - (at + size + 6))  # jmp [python]


def _aarch64(at: int, slow: int, *steps: Sequence[int]) -> bytes:
    """Code with the list in x9; each step but the first and last ends in a jump to where it goes on in Python."""
    words = [_label(0x58000009, DATA + _LIST - at), 0xB4000009]  # ldr x9, list; cbz x9
    jumps = [1]
    for number, step in enumerate(steps, 1):
        words += step
        if number < len(steps) and step[-1] >> 24 in (0x54, 0xB4):
            jumps.append(len(words) - 1)
    words += [0x52800000, 0xD65F03C0]  # mov w0, 0; ret
    end = len(words)
    for jump in jumps:
        words[jump] = _label(words[jump], 4 * (end - jump))
    words += [
        _label(0x58000010, DATA + slow - (at + 4 * end)),
        0xD61F0200,
    ]  # ldr x16, python; br x16
    return struct.pack(f"<{len(words)}I", *words)


def _label(word: int, distance: int) -> int:
    return word | (distance // 4 & 0x7FFFF) << 5
