"""Tests the machine code that measures ops, for both processor architectures, in an emulator."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
import unicorn
from unicorn import arm64_const as arm
from unicorn import x86_const as x86

from litert.runtime.timing_code import measuring_code, profiler_code

CODE, MEMORY, STACK, OUTSIDE = 0x100000, 0x300000, 0x400000, 0x500000
RETURN, CLOCK, ORIGINAL = OUTSIDE, OUTSIDE + 0x100, OUTSIDE + 0x200
LOG, NAME, THIS = MEMORY + 0x1000, MEMORY + 0x8000, MEMORY + 0x9000
CONTEXT, NODE, STATUS = 0x1111222233334444, 0x5555666677778888, 7
EVENT_SIZE = 96
MACHINES = ("x86_64", "aarch64")


class Machine:
    """A processor that executes the code from its memory; Python functions answer its calls to other addresses."""

    def __init__(self, machine: str, code: bytes) -> None:
        self.is_x86 = machine == "x86_64"
        if self.is_x86:
            self.cpu = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
            self._arguments = [
                x86.UC_X86_REG_RDI, x86.UC_X86_REG_RSI, x86.UC_X86_REG_RDX, x86.UC_X86_REG_RCX, x86.UC_X86_REG_R8,
            ]  # fmt: skip
            self._kept = [x86.UC_X86_REG_RBX, x86.UC_X86_REG_RBP, x86.UC_X86_REG_R12]
            self._result, self._stack = x86.UC_X86_REG_RAX, x86.UC_X86_REG_RSP
        else:
            self.cpu = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
            self._arguments = [getattr(arm, f"UC_ARM64_REG_X{i}") for i in range(5)]
            self._kept = [arm.UC_ARM64_REG_X19, arm.UC_ARM64_REG_X20, arm.UC_ARM64_REG_X29]
            self._result, self._stack = arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_SP
        for start in (CODE, MEMORY, STACK, OUTSIDE):
            self.cpu.mem_map(start, 0x20000)
        self.cpu.mem_write(CODE, code)
        if not self.is_x86:  # a `ret` instruction for each processor
            self.cpu.mem_write(OUTSIDE, struct.pack("<I", 0xD65F03C0) * 0x400)
        else:
            self.cpu.mem_write(OUTSIDE, b"\xc3" * 0x1000)

    def on_call(self, address: int, action: Callable[[Sequence[int]], int]) -> None:
        """Sets the function for calls of an address; a call overwrites the argument registers."""

        def hook(cpu: unicorn.Uc, *_: object) -> None:
            stack = cpu.reg_read(self._stack)
            assert stack % 16 == (8 if self.is_x86 else 0)  # as calling conventions require
            answer = action([cpu.reg_read(register) for register in self._arguments])
            for register in self._arguments:
                cpu.reg_write(register, 0xDEAD)
            cpu.reg_write(self._result, answer)

        self.cpu.hook_add(unicorn.UC_HOOK_CODE, hook, begin=address, end=address)

    def call(self, address: int, arguments: Sequence[int]) -> int:
        """Calls a function; checks that it preserves the stack pointer and the callee-saved registers."""
        cpu, stack = self.cpu, STACK + 0x10000
        if self.is_x86:
            stack -= 8
            cpu.mem_write(stack, struct.pack("<Q", RETURN))
        else:
            cpu.reg_write(arm.UC_ARM64_REG_X30, RETURN)
        cpu.reg_write(self._stack, stack)
        for register, value in zip(self._arguments, arguments, strict=False):
            cpu.reg_write(register, value)
        for index, register in enumerate(self._kept):
            cpu.reg_write(register, 1000 + index)
        cpu.emu_start(address, RETURN)
        assert [cpu.reg_read(register) for register in self._kept] == [1000, 1001, 1002]
        assert cpu.reg_read(self._stack) == stack + (8 if self.is_x86 else 0)
        return int(cpu.reg_read(self._result))

    def words(self, address: int, count: int) -> Sequence[int]:
        return struct.unpack(f"<{count}Q", self.cpu.mem_read(address, 8 * count))


def measuring(machine: str, originals: int, places: int) -> tuple[Machine, list[Sequence[int]]]:
    """Returns a machine with wrappers of functions and a log of `places` events, and a list of the calls."""
    found = Machine(machine, measuring_code(machine, MEMORY, originals))
    addresses = [ORIGINAL + 16 * number for number in range(originals)]
    end = LOG + places * EVENT_SIZE
    found.cpu.mem_write(MEMORY, struct.pack(f"<{4 + originals}Q", CLOCK, LOG, end, 0, *addresses))
    calls: list[Sequence[int]] = []
    times = iter(range(100))

    def clock(arguments: Sequence[int]) -> int:
        assert arguments[0] == 1  # CLOCK_MONOTONIC
        found.cpu.mem_write(arguments[1], struct.pack("<2Q", 5, next(times)))
        return 0

    def original(number: int) -> Callable[[Sequence[int]], int]:
        def answer(arguments: Sequence[int]) -> int:
            calls.append([number, *arguments[:2]])
            return STATUS

        return answer

    found.on_call(CLOCK, clock)
    for number, address in enumerate(addresses):
        found.on_call(address, original(number))
    return found, calls


@pytest.mark.parametrize("machine", MACHINES)
def test_an_op_is_called_as_before_and_its_times_are_written(machine: str) -> None:
    cpu, calls = measuring(machine, 3, 10)
    for number in (2, 0):
        status = cpu.call(CODE + 16 * number, [CONTEXT, NODE])
        assert status & 0xFFFFFFFF == STATUS
    assert calls == [[2, CONTEXT, NODE], [0, CONTEXT, NODE]]
    assert cpu.words(MEMORY + 8, 1) == (LOG + 2 * EVENT_SIZE,)
    assert cpu.words(LOG, 5) == (2, 5, 0, 5, 1)
    assert cpu.words(LOG + EVENT_SIZE, 5) == (0, 5, 2, 5, 3)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_log_that_is_full_is_not_written_past_its_end(machine: str) -> None:
    cpu, calls = measuring(machine, 1, 1)
    for _ in range(3):
        cpu.call(CODE, [CONTEXT, NODE])
    assert len(calls) == 3
    assert cpu.words(MEMORY + 8, 3) == (LOG + EVENT_SIZE, LOG + EVENT_SIZE, 2)
    assert cpu.words(LOG + EVENT_SIZE, 5) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_number_of_an_op_may_be_large(machine: str) -> None:
    count = 70_000
    code = measuring_code(machine, MEMORY, count)
    assert len(code) < 0x200000
    number = count - 1
    stub = code[16 * number : 16 * number + 16]
    if machine == "x86_64":
        assert struct.unpack("<BiBi", stub[:10]) == (0xB8, number, 0xE9, 6)
    else:
        low, high, branch = struct.unpack("<3I", stub[:12])
        assert (low >> 5 & 0xFFFF) | (high >> 5 & 0xFFFF) << 16 == number
        assert branch == 0x14000000 | 2


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", [b"", b"Add (ND)", b"x" * 63, b"x" * 64, b"x" * 200])
def test_an_operator_s_name_is_copied_as_far_as_there_is_place(machine: str, name: bytes) -> None:
    cpu = Machine(machine, profiler_code(machine))
    cpu.cpu.mem_write(MEMORY, struct.pack("<4Q", 0, LOG, LOG + EVENT_SIZE, 0))
    cpu.cpu.mem_write(THIS, struct.pack("<2Q", 0, MEMORY))
    cpu.cpu.mem_write(NAME, name + b"\0")
    cpu.call(CODE, [THIS, NAME, 8, 123, 4])
    assert cpu.words(LOG, 4) == ((1 << 64) - 1, 8, 123, 4)
    written = bytes(cpu.cpu.mem_read(LOG + 32, 128))
    assert written.partition(b"\0")[0] == name[:64]
    assert not any(written[64:])
    cpu.call(CODE, [THIS, NAME, 8, 123, 4])
    assert cpu.words(MEMORY + 8, 3) == (LOG + EVENT_SIZE, LOG + EVENT_SIZE, 1)


@pytest.mark.parametrize("machine", MACHINES)
def test_without_a_log_nothing_is_written(machine: str) -> None:
    cpu = Machine(machine, profiler_code(machine))
    cpu.cpu.mem_write(THIS, struct.pack("<2Q", 0, 0))
    before = bytes(cpu.cpu.mem_read(MEMORY, 0x20000))
    cpu.call(CODE, [THIS, NAME, 8, 123, 4])
    assert bytes(cpu.cpu.mem_read(MEMORY, 0x20000)) == before
