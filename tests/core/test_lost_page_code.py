"""Tests the machine code of the SIGBUS handler in an emulator, for both CPU architectures."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
import unicorn
from unicorn import arm64_const as arm
from unicorn import x86_const as x86

from litert.core.lost_page_code import default_code, handler_code
from tests.runtime.test_timing_code import CODE, MACHINES, MEMORY, ORIGINAL, OUTSIDE, Machine

NOTE, INFO, CONTEXT = MEMORY + 0x40, MEMORY + 0x100, MEMORY + 0x800
SIGNAL, RAISE = OUTSIDE + 0x300, OUTSIDE + 0x400
SIGBUS, BUS_ADRERR, BUS_ADRALN = 7, 2, 1
WHERE = 0x7F1234567ABC
PROT_READ, PRIVATE_FIXED_ANONYMOUS = 1, 0x32
PAGES = {"x86_64": 4096, "aarch64": 16384}


def answer_calls(processor: Machine, address: int, note: Callable[[Sequence[int]], None]) -> None:
    def answer(given: Sequence[int]) -> int:
        note(given)
        return 0

    processor.on_call(address, answer)


def take(machine: str, si_code: int, answer: int) -> tuple[int, list[int], list[list[int]]]:
    """Runs the handler; returns its note, the arguments of `mmap`, and the arguments for the next handler."""
    processor = Machine(machine, handler_code(machine, PAGES[machine], NOTE, ORIGINAL))
    cpu = processor.cpu
    asked: list[int] = []
    handed_on: list[list[int]] = []
    cpu.mem_write(INFO, struct.pack("<3iiQ", SIGBUS, 0, si_code, 0, WHERE))
    names = (
        [x86.UC_X86_REG_RAX]
        + [getattr(x86, f"UC_X86_REG_{name}") for name in ("RDI", "RSI", "RDX", "R10", "R8", "R9")]
        if processor.is_x86
        else [getattr(arm, f"UC_ARM64_REG_X{number}") for number in (8, 0, 1, 2, 3, 4, 5)]
    )

    def call(*_: object) -> None:
        asked.extend(cpu.reg_read(name) for name in names)
        cpu.reg_write(names[0] if processor.is_x86 else names[1], answer & (1 << 64) - 1)

    if processor.is_x86:
        cpu.hook_add(unicorn.UC_HOOK_INSN, call, None, 1, 0, x86.UC_X86_INS_SYSCALL)
    else:
        cpu.hook_add(unicorn.UC_HOOK_INTR, call)
    answer_calls(processor, ORIGINAL, lambda given: handed_on.append(list(given)[:3]))
    processor.call(CODE, [SIGBUS, INFO, CONTEXT])
    return processor.words(NOTE, 1)[0], asked, handed_on


@pytest.mark.parametrize("machine", MACHINES)
def test_bytes_that_are_gone_become_zeros_and_that_is_noted(machine: str) -> None:
    note, asked, handed_on = take(machine, BUS_ADRERR, WHERE)
    page, call = PAGES[machine], {"x86_64": 9, "aarch64": 222}[machine]
    place = WHERE - WHERE % page
    assert asked == [call, place, page, PROT_READ, PRIVATE_FIXED_ANONYMOUS, (1 << 64) - 1, 0]
    assert note == 1 and not handed_on


@pytest.mark.parametrize("machine", MACHINES)
def test_another_bus_error_is_handed_on(machine: str) -> None:
    assert take(machine, BUS_ADRALN, 0) == (0, [], [[SIGBUS, INFO, CONTEXT]])


@pytest.mark.parametrize("machine", MACHINES)
def test_what_the_kernel_refuses_is_handed_on(machine: str) -> None:
    note, asked, handed_on = take(machine, BUS_ADRERR, -12)
    assert note == 0 and asked and handed_on == [[SIGBUS, INFO, CONTEXT]]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_default_is_set_before_the_signal_is_sent_again(machine: str) -> None:
    processor = Machine(machine, default_code(machine, SIGNAL, RAISE))
    calls: list[object] = []
    answer_calls(processor, SIGNAL, lambda given: calls.append(("signal", *list(given)[:2])))
    answer_calls(processor, RAISE, lambda given: calls.append(("raise", next(iter(given)))))
    processor.call(CODE, [SIGBUS, INFO, CONTEXT])
    assert calls == [("signal", SIGBUS, 0), ("raise", SIGBUS)]
