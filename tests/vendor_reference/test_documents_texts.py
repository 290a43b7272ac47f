"""Tests the IR texts that are printed in the documents on which the levels are based, stage by stage.

`docs/levels.md` lists the corrections to these texts.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from tests.vendor_reference import document_texts as printed
from tests.vendor_reference.document_texts import DECLARED, MENDED, mend
from tests.vendor_reference.ir_texts import normal, read, run

STAGES = (
    ("BINARY_LAYER", "adjust-layouts,lower-ie-to-iert", "BINARY_LAYER_ON_BUFFERS"),
    ("INITIAL", "add-shape-values", "WITH_SHAPES"),
    ("WITH_SHAPES", "bound-shapes", "BOUNDED"),
    ("BOUNDED", "lower-ie-to-iert", "ON_BUFFERS"),
)


def anonymous(text: str) -> str:
    """Returns a text with its values numbered in the order of their first use."""
    numbers: dict[str, int] = {}
    counter = count()

    def number(match: re.Match[str]) -> str:
        return f"%{numbers.setdefault(match[0], next(counter))}"

    return re.sub(r"%\w+", number, text)


@pytest.mark.parametrize(("before", "passes", "after"), STAGES)
def test_a_printed_text_becomes_the_next_one(before: str, passes: str, after: str) -> None:
    assert anonymous(run(MENDED[before], passes)) == anonymous(normal(MENDED[after]))


def test_stages_are_one_way() -> None:
    passes = ",".join(passes for _, passes, _ in STAGES[1:])
    expected = anonymous(normal(MENDED["ON_BUFFERS"]))
    assert anonymous(run(MENDED["INITIAL"], passes)) == expected


def test_a_printed_text_is_printed_as_mlir_has_it_today() -> None:
    body = """%output_shape: memref<2xui32>) {
    %input_shape = IERT.ActualShapeOf %input : memref<100x3x300x300xf16> -> memref<4xui32>
    %temp0 = memref.alloc() : memref<100x16x200x200xf16>
    %temp0_shape = memref.alloc() : memref<4xui32>
    IERT.Layer1(%input, %output)[%input_shape, %temp0_shape]
    %temp1 = memref.alloc() : memref<100x16x200x200xf16>
    IERT.SimpleLayer(%temp0, %temp1)[%temp0_shape]
    memref.dealloc %temp0 : memref<100x16x200x200xf16>
    func.call @calc_custom_shape(%temp0_shape, %output_shape) : (memref<4xui32>, memref<2xui32>) -> ()
    IERT.Custom(%temp1, %output)[%temp0_shape, %output_shape]
    memref.dealloc %temp0_shape : memref<4xui32>
    func.return
  }
"""
    on_buffers = {"(!shape.shape) -> !shape.shape": "(memref<4xui32>, memref<2xui32>)"}
    text = normal(mend(DECLARED, on_buffers) + printed.ON_BUFFERS)
    assert body in text
    assert "func.func private @Layer1(memref<100x3x300x300xf16>, memref<4xui32>, " in text


@pytest.mark.parametrize("name", ["WITH_SHAPES", "BOUNDED"])
def test_a_text_without_mistakes_is_read_as_it_is(name: str) -> None:
    text = normal(DECLARED + getattr(printed, name))
    assert "%temp0, %temp0_1 = IE.Layer1(%input)[%input_shape] : " in text
    assert "= IE.Custom(%temp1)[%temp0_1][%temp2_shape] : " in text
    assert "!shape.shape, !shape.shape -> " in text and "!shape.type" not in text


DOTS: dict[str, Any] = {"dense<...>": "dense_resource<bin_code>"}
WRONG = {
    "values that are three dots": (printed.BINARY_LAYER, 4, "literal", "Three dots are not values"),
    "buffers that nobody makes": (mend(printed.BINARY_LAYER_ON_BUFFERS, DOTS), 7, "%input is not defined", ""),
    "an argument that is freed": (
        mend(MENDED["BINARY_LAYER_ON_BUFFERS"], {"return\n": "dealloc %input\nreturn\n"}),
        25,
        "a function must not free its arguments",
        "",
    ),
    "a value that there is not": (DECLARED + printed.INITIAL, 25, "%2 is not defined", ""),
    "an op that nobody declares": (
        mend(printed.INITIAL, {"return %2": "return %temp2"}),
        7,
        "op 'Layer1' is neither in the vendor's library of builtin ops nor declared by a function",
        "Declare the op with: func.func private @Layer1(",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_an_error_with_its_line(name: str) -> None:
    text, line, what, hint = WRONG[name]
    with pytest.raises(LiteRtError, match=re.escape(what)) as error:
        read(text)
    assert error.value.where.startswith(f"test.mlir:{line}:")
    assert hint in error.value.hint


def test_nobody_says_how_large_the_document_s_input_is() -> None:
    with pytest.raises(LiteRtError, match="the largest shape of argument 0 is unknown"):
        run(DECLARED + printed.WITH_SHAPES, "bound-shapes")


def test_layouts_cost_no_more_than_the_document_s_reorders() -> None:
    reorders = run(MENDED["BINARY_LAYER"], "adjust-layouts")
    assert reorders.count("IE.Reorder(") == 3
    assert run(MENDED["BINARY_LAYER"], "adjust-layouts,optimize-reorders") == reorders


TASKS = [
    "%input_NHWC = VPUIP.DeclareBuffer @CMX[640000] : memref<1x16x100x100xf16, #NHWC, @CMX>",
    "VPUIP.Command @Reorder (%input) -> (%input_NHWC)",
    "%weights_OYXI = VPUIP.DeclareBuffer @CMX[960000] : memref<32x16x3x3xf16, #NHWC, @CMX>",
    "%output_NHWC = VPUIP.DeclareBuffer @CMX[0] : memref<1x32x100x100xf16, #NHWC, @CMX>",
    "VPUIP.OCL from %bin_code (%input_NHWC, %weights_OYXI) -> (%output_NHWC) {num_shaves = 8 : i64}",
]
"""Lines of the last stage: tasks, and buffers at their places in memory."""


def test_a_binary_layer_becomes_a_task_of_its_type() -> None:
    passes = "lower-iert-to-vpuip,assign-memory-spaces,plan-memory"
    text = run(MENDED["BINARY_LAYER_ON_BUFFERS"], passes)
    for line in TASKS:
        assert f"    {line}" in text
    native = run(MENDED["BINARY_LAYER_ON_BUFFERS"].replace("VPUIP.OCL", "VPUIP.CPP"), passes)
    assert "VPUIP.CPP from %bin_code (%input_NHWC, %weights_OYXI) -> (%output_NHWC)" in native
