"""Tests the machine code that records which op runs, for both processor architectures, in an emulator."""

from __future__ import annotations

import struct

import pytest

from litert.runtime.marking_code import STUB_SIZE, marking_code
from tests.runtime.test_timing_code import (
    CODE,
    CONTEXT,
    MACHINES,
    MEMORY,
    NODE,
    ORIGINAL,
    STATUS,
    Machine,
)

WORD = MEMORY + 0x40


@pytest.mark.parametrize("number", [1, 2, 70_000])
@pytest.mark.parametrize("machine", MACHINES)
def test_an_op_gets_what_it_would_have_and_its_number_is_told(machine: str, number: int) -> None:
    code = marking_code(machine, WORD, [ORIGINAL] * number)[(number - 1) * STUB_SIZE :]
    assert len(code) == STUB_SIZE
    processor = Machine(machine, code)
    processor.cpu.mem_write(WORD, b"\xff" * 8)
    seen = []

    def original(arguments: object) -> int:
        seen.append((arguments, processor.words(WORD, 1)))
        return STATUS

    processor.on_call(ORIGINAL, original)
    assert processor.call(CODE, [CONTEXT, NODE]) == STATUS
    ((arguments, (word,)),) = seen
    assert list(arguments)[:2] == [CONTEXT, NODE]  # type: ignore[call-overload]
    assert struct.pack("<Q", word) == struct.pack("<I", number) + b"\xff" * 4
