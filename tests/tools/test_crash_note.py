"""Tests the machine code that prints the last message of a crash, for both architectures, in an emulator."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
import unicorn
from litert_npu_tools.crash_note import note_code
from unicorn import arm64_const as arm
from unicorn import x86_const as x86

from tests.runtime.test_timing_code import CODE, MACHINES, MEMORY, OUTSIDE, Machine

CALLS = {"x86_64": {35: "sleep", 1: "write"}, "aarch64": {101: "sleep", 64: "write"}}
SIGNAL, RAISE = OUTSIDE + 0x300, OUTSIDE + 0x400
STDERR, SIZE, SIGSEGV = 2, 300, 11
TEXT = MEMORY + 0x100


@pytest.mark.parametrize("machine", MACHINES)
def test_the_text_is_written_after_a_while_and_the_signal_ends_the_process(machine: str) -> None:
    processor = Machine(machine, note_code(machine, TEXT, MEMORY, SIGNAL, RAISE))
    cpu = processor.cpu
    done: list[object] = []
    names = (
        [x86.UC_X86_REG_RAX, x86.UC_X86_REG_RDI, x86.UC_X86_REG_RSI, x86.UC_X86_REG_RDX]
        if processor.is_x86
        else [arm.UC_ARM64_REG_X8, arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_X1, arm.UC_ARM64_REG_X2]
    )

    def call(*_: object) -> None:
        number, *given = (cpu.reg_read(name) for name in names)
        if CALLS[machine][number] == "sleep":
            done.append(("sleep", *struct.unpack("<2q", cpu.mem_read(given[0], 16)), given[1]))
        else:
            done.append(("write", *given))

    def answer(name: str, count: int) -> Callable[[Sequence[int]], int]:
        def note(given: Sequence[int]) -> int:
            done.append((name, *list(given)[:count]))
            return 0

        return note

    if processor.is_x86:
        cpu.hook_add(unicorn.UC_HOOK_INSN, call, None, 1, 0, x86.UC_X86_INS_SYSCALL)
    else:
        cpu.hook_add(unicorn.UC_HOOK_INTR, call)
    processor.on_call(SIGNAL, answer("signal", 2))
    processor.on_call(RAISE, answer("raise", 1))
    cpu.mem_write(MEMORY, struct.pack("<Q", SIZE))
    processor.call(CODE, [SIGSEGV])
    assert processor.words(MEMORY, 1)[0] == 0  # no other thread prints the text again
    assert done == [
        ("sleep", 0, 200_000_000, 0),
        ("write", STDERR, TEXT, SIZE),
        ("signal", SIGSEGV, 0),
        ("raise", SIGSEGV),
    ]
