"""Machine code for the getters that plugins call several times for each op and tensor.

A fast getter reads its result from a table in a few instructions; if the table has no entry, it calls Python.
This module generates a shared library with the code. Only one compiler context at a time uses the library. Each
getter reads two pointers from the library's data: the address of its table, or NULL, and the address of the Python
function. The getter jumps to the Python function if the table has no entry, for example for a wrong handle.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.elf_library import CODE, DATA, Code, elf_library, load_library
from litert.abi.handles import STEP

INDEX = "get_subgraph_op"
COLUMNS = {
    "get_op_code": "int32_t",
    "get_num_op_inputs": "uint64_t",
    "get_num_op_outputs": "uint64_t",
    "get_tensor_name": "const char*",
    "get_tensor_weights": "uintptr_t",
    "get_quantization_type_id": "int32_t",
    "get_ranked_tensor_type": "LiteRtRankedTensorType",
}
"""For each slot, the C type of the value that the fast getter returns."""

FUNCTIONS = (INDEX, *COLUMNS)

SLOT_SIZE = 16
"""Size in bytes of the two pointers that each fast getter reads."""

assert STEP == 1 << 4  # the machine code shifts by 4 bits

_SONAME = "liblitert_npu_getters.so"
_SLOTS = {name: SLOT_SIZE * number for number, name in enumerate(FUNCTIONS)}

_has_owner = False
_publishing = threading.Lock()


class FastGetters:
    """The fast getters of the compiler context that owns the machine code.

    A table never changes after `show`, so that each thread of the plugin sees a complete table. Some processors,
    such as aarch64, reorder writes; therefore a table is written and published under a lock.
    """

    def __init__(self, functions: dict[str, Any], data: Any) -> None:
        self.functions = functions
        self._data = data

    @classmethod
    def claim(cls, slow: dict[str, Any]) -> FastGetters | None:
        """Returns the fast getters; None if another context uses them. `slow` maps slots to Python functions."""
        global _has_owner
        if _has_owner:
            return None
        _has_owner = True
        functions = {name: ffi.addressof(_load(), f"litert_npu_{name}") for name in FUNCTIONS}
        start = int(ffi.cast("uintptr_t", functions[FUNCTIONS[0]])) - CODE
        data = ffi.cast("uintptr_t*", start + DATA)
        for name, callback in slow.items():
            data[_SLOTS[name] // 8 + 1] = int(ffi.cast("uintptr_t", callback))
        return cls(functions, data)

    def show(self, slot: str, table: Any) -> None:
        """Sets the table of a getter; the caller must keep the table alive."""
        with _publishing:
            self._data[_SLOTS[slot] // 8] = int(ffi.cast("uintptr_t", table))

    def hide(self) -> None:
        """Removes all tables, so that Python handles all calls."""
        for place in _SLOTS.values():
            self._data[place // 8] = 0

    def release(self) -> None:
        """Removes all tables, and lets another compiler context use the fast getters."""
        global _has_owner
        self.hide()
        _has_owner = False


def index_table(owner: int, first: int, number: int) -> Any:
    """Returns the table of `INDEX` in C memory: the subgraph's handle, number of ops, and first op's handle."""
    return _table(struct.pack("<3Q", owner, number, first))


def column_table(slot: str, first: int, answers: Sequence[Any]) -> Any:
    """Returns the table of one of the getters in `COLUMNS`, in C memory.

    `answers` contains the return value for each handle of the row that starts at `first`, as a number or as a cffi
    struct.
    """
    column = ffi.new(f"{COLUMNS[slot]}[]", answers)
    return _table(struct.pack("<2Q", first, len(answers)) + bytes(ffi.buffer(column)))


def _table(content: bytes) -> Any:
    memory = ffi.new("uint64_t[]", -(-len(content) // 8))
    with _publishing:
        ffi.memmove(memory, content, len(content))
    return memory


@cache
def _load() -> Any:
    codes = {INDEX: index_code(_SLOTS[INDEX])}
    for name, answer in COLUMNS.items():
        codes[name] = column_code(_SLOTS[name], ffi.sizeof(answer))
    functions = [(f"litert_npu_{name}", codes[name]) for name in FUNCTIONS]
    image = elf_library(_SONAME, functions, SLOT_SIZE * len(functions))
    return load_library(image, _SONAME, ffi.RTLD_LOCAL)


def index_code(slot: int) -> Code:
    """Returns the machine code of `get(owner, index, handle*)`, for consecutive handles.

    The table contains three numbers of 8 bytes: the owner's handle, the number of elements, and the handle of the
    first element.

    Args:
      slot: Offset of the getter's two pointers from the start of the library's data, in bytes.
    """

    def code(machine: str, at: int) -> bytes:
        if machine == "x86_64":
            return _x86_64(
                at,
                slot,
                b"\x48\x3b\x38\x75",  # cmp rdi, [rax]; jne
                b"\x48\x3b\x70\x08\x73",  # cmp rsi, [rax + 8]; jae
                b"\x48\x85\xd2\x74",  # test rdx, rdx; jz
                b"\x48\xc1\xe6\x04"  # shl rsi, 4
                b"\x48\x03\x70\x10"  # add rsi, [rax + 16]
                b"\x48\x89\x32",  # mov [rdx], rsi
            )
        return _aarch64(
            at,
            slot,
            (0xF940012A,),  # ldr x10, [x9]
            (0xEB0A001F, 0x54000001),  # cmp x0, x10; b.ne
            (0xA940AD2A, 0xEB0A003F, 0x54000002),  # ldp x10, x11, [x9, 8]; cmp x1, x10; b.hs
            (0xB4000002,),  # cbz x2
            (0x8B01116A, 0xF900004A),  # add x10, x11, x1, lsl 4; str x10, [x2]
        )

    return code


def column_code(slot: int, size: int) -> Code:
    """Returns the machine code of `get(handle, answer*)`, for consecutive handles.

    The table contains the first handle and the number of handles, with 8 bytes each, followed by the return
    values.

    Args:
      slot: Offset of the getter's two pointers from the start of the library's data, in bytes.
      size: Size of the returned value in bytes: 4, or a multiple of 8 below 80.
    """
    assert size == 4 or (size % 8 == 0 and size < 80)  # jumps and distances of one byte

    def code(machine: str, at: int) -> bytes:
        if machine == "x86_64":
            return _x86_64(
                at,
                slot,
                b"\x48\x89\xf9"  # mov rcx, rdi
                b"\x48\x2b\x08"  # sub rcx, [rax]
                b"\xf6\xc1\x0f\x75",  # test cl, 15; jnz
                b"\x48\xc1\xe9\x04"  # shr rcx, 4
                b"\x48\x3b\x48\x08\x73",  # cmp rcx, [rax + 8]; jae
                b"\x48\x85\xf6\x74",  # test rsi, rsi; jz
                _copy_x86_64(size),
            )
        return _aarch64(
            at,
            slot,
            (0xA9402D2A, 0xCB0A000C),  # ldp x10, x11, [x9]; sub x12, x0, x10
            (0xF2400D9F, 0x54000001),  # tst x12, 15; b.ne
            (0xD344FD8C, 0xEB0B019F, 0x54000002),  # lsr x12, x12, 4; cmp x12, x11; b.hs
            (0xB4000001,),  # cbz x1
            _copy_aarch64(size),
        )

    return code


def _copy_x86_64(size: int) -> bytes:
    """Returns code that copies value number rcx of the table at rax to [rsi]."""
    if size == 4:
        return b"\x8b\x44\x88\x10\x89\x06"  # mov eax, [rax + 4 * rcx + 16]; mov [rsi], eax
    code = b"\x48\x6b\xc9" + bytes([size])  # imul rcx, rcx, size
    code += b"\x48\x01\xc8"  # add rax, rcx
    for offset in range(0, size, 8):
        code += b"\x48\x8b\x48" + bytes([16 + offset])  # mov rcx, [rax + 16 + offset]
        code += b"\x48\x89\x4e" + bytes([offset])  # mov [rsi + offset], rcx
    return code


def _copy_aarch64(size: int) -> Sequence[int]:
    """Returns code that copies value number x12 of the table at x9 to [x1]."""
    if size == 4:  # add x9, x9, 16; ldr w10, [x9, x12, lsl 2]; str w10, [x1]
        return (0x91004129, 0xB86C792A, 0xB900002A)
    words = [0xD280000A | size << 5, 0x9B0A2589]  # mov x10, size; madd x9, x12, x10, x9
    for offset in range(0, size, 8):
        words.append(0xF940012A | (16 + offset) // 8 << 10)  # ldr x10, [x9, 16 + offset]
        words.append(0xF900002A | offset // 8 << 10)  # str x10, [x1, offset]
    return words


def _x86_64(at: int, slot: int, *steps: bytes) -> bytes:
    """Returns x86-64 code with the table in rax; each step but the last ends in a jump without its distance."""
    body = b"\x48\x85\xc0\x74"  # test rax, rax; jz
    *tests, answer = (body, *steps)
    size = 7 + sum(len(test) + 1 for test in tests) + len(answer) + 3
    code = b"\x48\x8b\x05" + struct.pack("<i", DATA + slot - (at + 7))  # mov rax, [table]
    for test in tests:
        code += test
        code += struct.pack("b", size - (len(code) + 1))
    code += answer + b"\x31\xc0\xc3"  # xor eax, eax; ret
    return code + b"\xff\x25" + struct.pack("<i", DATA + slot + 8 - (at + size + 6))  # jmp [...]


def _aarch64(at: int, slot: int, *steps: Sequence[int]) -> bytes:
    """Returns aarch64 code with the table in x9; each step but the first and the last ends in a jump."""
    words = [_label(0x58000009, DATA + slot - at), 0xB4000009]  # ldr x9, table; cbz x9
    jumps = [1]
    for number, step in enumerate(steps, 1):
        words += step
        if number < len(steps) and step[-1] >> 24 in (0x54, 0xB4):
            jumps.append(len(words) - 1)
    words += [0x52800000, 0xD65F03C0]  # mov w0, 0; ret
    end = len(words)
    for jump in jumps:
        words[jump] = _label(words[jump], 4 * (end - jump))
    words.append(_label(0x58000010, DATA + slot + 8 - (at + 4 * end)))  # ldr x16, ...
    words.append(0xD61F0200)  # br x16
    return struct.pack(f"<{len(words)}I", *words)


def _label(word: int, distance: int) -> int:
    return word | (distance // 4 & 0x7FFFF) << 5
