"""Tests the texts of tasks with edited offsets or numbers of shaves."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from vendor_reference.compiler.opt import transform_text

TEXT = """\
builtin.module attributes {VPUIP.soc = "EMU8"} {
  func.func private @Twice(memref<96xf32>, memref<96xf32>) -> () attributes {VPUIP.task = "OCL"}
  func.func @main(%x: memref<96xf32>, %y: memref<96xf32>) {
    %a = VPUIP.DeclareBuffer @CMX[0] : memref<96xf32, @CMX>
    VPUIP.OCL @Twice (%x) -> (%a) {global_size = array<i64: 96>, num_shaves = 8 : i64}
    %b = VPUIP.DeclareBuffer @CMX[384] : memref<96xf32, @CMX>
    VPUIP.OCL @Twice (%a) -> (%b) {global_size = array<i64: 96>, num_shaves = 8 : i64}
    %c = VPUIP.DeclareBuffer @CMX[0] : memref<96xf32, @CMX>
    VPUIP.OCL @Twice (%b) -> (%c) {global_size = array<i64: 96>, num_shaves = 8 : i64}
    VPUIP.OCL @Twice (%c) -> (%y) {global_size = array<i64: 96>, num_shaves = 8 : i64}
    func.return
  }
}
"""


def test_a_plan_that_shares_memory_over_time_is_taken() -> None:
    assert "%b = VPUIP.DeclareBuffer @CMX[384]" in transform_text(TEXT.encode(), "a.mlir", "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "@CMX[384]",
            "@CMX[0]",
            "buffer %a has 384 bytes at offset 0, and buffer %b has 384 bytes at offset 0 "
            "(a.mlir:6:5, CMX of EMU8, function 'main')",
        ),
        (
            "@CMX[384]",
            "@CMX[320]",
            "buffer %a and buffer %b overlap in memory, although task 1 needs both",
        ),
        (
            "@CMX[384]",
            "@CMX[2097152]",
            "buffer %b has 384 bytes at offset 2097152, but the memory ends at offset 2097152",
        ),
        (
            "@CMX[384]",
            "@CMX[385]",
            "buffer %b has offset 385, but the offset must be a multiple of 64",
        ),
        (
            "num_shaves = 8",
            "num_shaves = 9",
            "task 0 uses 9 vector processors (shaves), but EMU8 has only 8 (a.mlir:5:5, function 'main')",
        ),
        (
            "VPUIP.OCL @Twice (%b)",
            "VPUIP.OCL @Thrice (%b)",
            "task 2 calls function 'Thrice', which does not exist (a.mlir:9:5",
        ),
        ("EMU8", "EMU4", "task 0 uses 8 vector processors (shaves), but EMU4 has only 4"),
    ],
)
def test_what_cannot_be_is_refused_by_name(old: str, new: str, message: str) -> None:
    with pytest.raises(LiteRtError) as error:
        transform_text(TEXT.replace(old, new, 1).encode(), "a.mlir", "")
    assert message in str(error.value)


def test_a_text_of_tasks_for_another_soc_is_checked_for_that() -> None:
    with pytest.raises(
        LiteRtError, match=r"uses 8 vector processors \(shaves\), but EMU4 has only 4"
    ):
        transform_text(TEXT.encode(), "a.mlir", "", "EMU4")
