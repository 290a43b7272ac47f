"""Tests the getters' machine code for both architectures in an emulator: calls that the table does not cover are
passed on.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
import unicorn
from hypothesis import given
from hypothesis import strategies as st
from unicorn import arm64_const, x86_const

from compiler_plugin.native.fast_getters import column_code, index_code
from litert.abi.elf_library import DATA, Code

LIBRARY, MEMORY, STACK, RETURN, PYTHON = 0x100000, 0x300000, 0x400000, 0x500000, 0x600000
OUT = MEMORY + 0x8000
SLOT = 32  # one of several slots
AT = 0x840
MACHINES = ("x86_64", "aarch64")
WORD = (1 << 64) - 1
handles = st.one_of(st.integers(0, WORD), st.integers(0, 2000))


class Emulator:
    """Emulates one function of the library at its address."""

    def __init__(self, machine: str, code: Code) -> None:
        self._machine = machine
        if machine == "x86_64":
            self._cpu = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        else:
            self._cpu = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        for start in (LIBRARY, MEMORY, STACK, RETURN, PYTHON):
            self._cpu.mem_map(start, 0x20000)
        self._cpu.mem_write(LIBRARY + AT, code(machine, AT))
        self._cpu.hook_add(unicorn.UC_HOOK_CODE, self._stop, begin=PYTHON, end=PYTHON + 4)
        self._is_passed_on = False

    def _stop(self, cpu: unicorn.Uc, *_: object) -> None:
        self._is_passed_on = True
        cpu.emu_stop()

    def call(self, table: bytes | None, arguments: Sequence[int], size: int) -> bytes | None:
        """Returns the bytes that the function wrote; None if it passed the call on with its arguments intact."""
        cpu, is_x86 = self._cpu, self._machine == "x86_64"
        if table is not None:
            cpu.mem_write(MEMORY, table)
        shown = MEMORY if table is not None else 0
        cpu.mem_write(LIBRARY + DATA + SLOT, struct.pack("<2Q", shown, PYTHON))
        cpu.mem_write(OUT, b"\xee" * 128)
        if is_x86:
            registers = [
                x86_const.UC_X86_REG_RDI,
                x86_const.UC_X86_REG_RSI,
                x86_const.UC_X86_REG_RDX,
            ]
            result = x86_const.UC_X86_REG_RAX
            cpu.reg_write(x86_const.UC_X86_REG_RSP, STACK + 0x1000)
            cpu.mem_write(STACK + 0x1000, struct.pack("<Q", RETURN))
        else:
            registers = [
                arm64_const.UC_ARM64_REG_X0,
                arm64_const.UC_ARM64_REG_X1,
                arm64_const.UC_ARM64_REG_X2,
            ]
            result = arm64_const.UC_ARM64_REG_X0
            cpu.reg_write(arm64_const.UC_ARM64_REG_X30, RETURN)
        for register, argument in zip(registers, arguments, strict=False):
            cpu.reg_write(register, argument)
        self._is_passed_on = False
        cpu.emu_start(LIBRARY + AT, RETURN)
        memory = bytes(cpu.mem_read(OUT, 128))
        if self._is_passed_on:
            kept = [cpu.reg_read(r) for r in registers[: len(arguments)]]
            assert kept == list(arguments)
            assert memory == b"\xee" * 128
            return None
        assert cpu.reg_read(result) & 0xFFFFFFFF == 0
        assert memory[size:] == b"\xee" * (128 - size)
        return memory[:size]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [4, 8, 16, 72])
def test_a_column_has_the_answers_of_its_row_alone(machine: str, size: int) -> None:
    emulator = Emulator(machine, column_code(SLOT, size))

    @given(handles, st.integers(0, 2000), st.integers(0, 20))
    def check(handle: int, first: int, count: int) -> None:
        answers = [bytes((7 * i + j) % 251 for j in range(size)) for i in range(count)]
        table = struct.pack("<2Q", first, count) + b"".join(answers)
        for asked in (
            handle,
            first,
            first + 16,
            first + 16 * count,
            (first - 16) & WORD,
            first + 8,
        ):
            place, rest = divmod((asked - first) & WORD, 16)
            expected = answers[place] if place < count and not rest else None
            assert emulator.call(table, [asked, OUT], size) == expected
        assert emulator.call(table, [first, 0], size) is None
        assert emulator.call(None, [first, OUT], size) is None

    check()


@pytest.mark.parametrize("machine", MACHINES)
def test_an_index_leads_to_a_handle_of_the_owner_that_is_shown(machine: str) -> None:
    emulator = Emulator(machine, index_code(SLOT))

    @given(handles, handles, st.integers(0, 2**32), st.integers(0, 20))
    def check(owner: int, index: int, first: int, count: int) -> None:
        table = struct.pack("<3Q", owner, count, first)
        for asked in (index, 0, count, count - 1 & WORD):
            expected = struct.pack("<Q", first + 16 * asked) if asked < count else None
            assert emulator.call(table, [owner, asked, OUT], 8) == expected
        assert emulator.call(table, [owner ^ 1, 0, OUT], 8) is None
        assert emulator.call(table, [owner, 0, 0], 8) is None
        assert emulator.call(None, [owner, 0, OUT], 8) is None

    check()
