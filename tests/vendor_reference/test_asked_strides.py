"""Tests that layers get tensors with the strides they require, down to the pitches in their kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.vendor_reference.document_texts import MENDED, mend
from tests.vendor_reference.ir_texts import read, run
from tests.vendor_reference.test_strided_layers_run import (
    BFYX,
    BYXF,
    SHAPE,
    STRIDED,
    XML,
    define,
    gain,
    kernel_of,
    random,
)
from tests.vendor_reference.test_strided_layers_run import run as run_model
from vendor_reference.compiler.pass_pipeline import pipeline

TO_BUFFERS = ",".join(pipeline()[: pipeline().index("lower-ie-to-iert") + 1])


def asking(strides: str) -> str:
    """Returns the document's layer, which requires strides in addition to layouts."""
    return mend(
        MENDED["BINARY_LAYER"], {"VPUIP.max_num_shaves": f"{strides},\n  VPUIP.max_num_shaves"}
    )


def test_the_document_s_layer_gets_padded_rows() -> None:
    text = run(asking("input_strides = [[179200,1,1792,16], unit]"), TO_BUFFERS)
    view = "memref<1x16x100x100xf16, strided<[179200, 1, 1792, 16]>>"
    assert (
        f"%2 = IERT.View %1 : memref<179200xf16> -> {view}\n    IERT.Reorder(%input, %2)\n" in text
    )
    assert "IERT.CustomBinaryLayer VPUIP.OCL from %bin_code (%2, %3, %output) {" in text
    assert "memref.dealloc %1 : memref<179200xf16>" in text


@pytest.mark.parametrize(
    "strides",
    [
        "input_strides = [[160000,1,1600,16], unit]",  # the strides of its layout
        "input_strides = [[7,1,1600,16], unit]",  # any stride fits a dimension of size 1
        "input_strides = [false, true], output_strides = [unit]",
    ],
)
def test_strides_that_a_layout_gives_anyway_change_nothing(strides: str) -> None:
    assert run(asking(strides), TO_BUFFERS) == run(MENDED["BINARY_LAYER"], TO_BUFFERS)


KERNEL = """VPUIP.kernel = {title = "k", arguments = [{input = 0 : i64}, {output = 0 : i64}]}"""
CHAIN = f"""
func.func private @Rows(tensor<4x6xf32>) -> tensor<4x6xf32>
    attributes {{{KERNEL}, IE.input_strides = [[10, 1]], IE.output_strides = [array<i64: 1, 5>]}}
func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {{
  %y = IE.Rows(%x) : tensor<4x6xf32> -> tensor<4x6xf32>
  %z = IE.Rows(%y) : tensor<4x6xf32> -> tensor<4x6xf32>
  return %z, %z
}}
"""


def test_what_transfers_alone_touch_is_made_so_at_once() -> None:
    text = run(CHAIN, TO_BUFFERS)
    rows, columns = "memref<4x6xf32, strided<[10, 1]>>", "memref<4x6xf32, strided<[1, 5]>>"
    assert f"@Rows({rows}, {columns})" in text
    assert text.endswith(f"""
    %2 = memref.alloc() : memref<30xf32>
    %y = IERT.View %2 : memref<30xf32> -> {columns}
    %3 = memref.alloc() : memref<40xf32>
    %4 = IERT.View %3 : memref<40xf32> -> {rows}
    IERT.Copy(%x, %4)
    IERT.Rows(%4, %y)
    memref.dealloc %3 : memref<40xf32>
    %5 = memref.alloc() : memref<40xf32>
    %6 = IERT.View %5 : memref<40xf32> -> {rows}
    IERT.Reorder(%y, %6)
    memref.dealloc %2 : memref<30xf32>
    %7 = memref.alloc() : memref<30xf32>
    %z = IERT.View %7 : memref<30xf32> -> {columns}
    IERT.Rows(%6, %z)
    memref.dealloc %5 : memref<40xf32>
    IERT.Reorder(%z, %0)
    memref.dealloc %7 : memref<30xf32>
    IERT.Copy(%0, %1)
    func.return
  }}
}}
""")


def compile_gain(
    folder: Path, layer: str, edits: Mapping[str, str], more: str = ""
) -> dict[str, str]:
    """Compiles a layer after edits to its function in the IR; returns the dumped texts by file name."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    b.output(gain(b, layer, x, "y", 2.0))
    write_model(b.build(), folder / "m.tflite")
    (folder / "strided.cl").write_text(STRIDED)
    xml = folder / f"{layer}.xml"
    xml.write_text(XML.format(name=layer, kernel="strided", form=layer.removeprefix("Gain")))
    dump = DumpOptions(str(folder / "dump"), "all", kernels=True)
    compiler = CompilerOptions([CustomOpInfo(layer, str(xml))], dump=dump)
    options = ApplyOptions(require_npu=["all"], compiler=compiler)
    apply_plugin(folder / "m.tflite", folder / "compiled.tflite", options)
    text = (folder / "dump/00_import.mlir").read_text()
    (folder / "edited.mlir").write_text(mend(text, edits))
    edited = replace(compiler, replace_ir={"Partition_0": str(folder / "edited.mlir")})
    options = replace(options, compiler=edited)
    apply_plugin(folder / "m.tflite", folder / "compiled.tflite", options)
    return {path.name: path.read_text() for path in (folder / "dump").iterdir()}


@pytest.mark.each_driver
@pytest.mark.parametrize(
    ("layer", "edits", "pitches", "padding"),
    [  # 2 images of 4 x 6 x 2, channels last: rows of 8 pixels; then planes of rows of 8, 5 of them
        (BYXF, {"IE.input_strides = [true]": "IE.input_strides = [[64, 16, 2, 1]]"}, [64, 1, 16, 2], [0, 0, 0, 2]),
        (BFYX, {"IE.input_strides = [true]": "IE.input_strides = [[80, 8, 1, 40]]"}, [80, 40, 8, 1], [0, 0, 1, 2]),
    ],
)  # fmt: skip
def test_a_kernel_goes_by_the_pitches_that_its_layer_asks_for(
    tmp_path: Path, layer: str, edits: dict[str, str], pitches: list[int], padding: list[int]
) -> None:
    also = {
        key.replace("input", "output"): value.replace("input", "output")
        for key, value in edits.items()
    }
    dump = compile_gain(tmp_path, layer, {**edits, **also})
    text = kernel_of(dump, "y")
    for tensor in ("INPUT0", "OUTPUT0"):
        assert define(text, f"{tensor}_PITCHES") == pitches
        assert define(text, f"{tensor}_UPPER_PADDING") == padding
        assert define(text, f"{tensor}_DIMS") == [2, 2, 4, 6]
    x = random()
    np.testing.assert_array_equal(run_model(tmp_path, [x], [SHAPE])[0], 2 * x)


@pytest.mark.parametrize(
    ("strides", "what"),
    [
        (
            "[160000,1,1600]",
            "strides [160000, 1, 1600] do not fit shape 1x16x100x100: the number of strides is 3, but must be 4",
        ),
        (
            "[160000,1,1500,16]",
            "dimension 2 has a stride of 1500 elements, but dimension 3 extends over 1600 elements",
        ),
        ("[160000,0,1600,16]", "each stride must be from 1 to 2147483647 elements"),
        ("[160000,1,1600,99999999999]", "each stride must be from 1 to 2147483647 elements"),
        (
            "[160000,10000,100,1]",
            "from the largest to the smallest, the strides belong to the dimensions [1, 2, 3], but without the "
            "dimensions of size 1, the layout has the order [2, 3, 1]",
        ),
        (
            "[]",
            "but must be true (any strides), false or unit (no gaps), or the strides of each dimension, such as "
            "[160000, 1, 1600, 16]",
        ),
        ('["a"]', "but must be true (any strides), false or unit (no gaps), or the strides of each"),
    ],
)  # fmt: skip
def test_strides_that_no_tensor_has_are_refused_with_the_line(strides: str, what: str) -> None:
    with pytest.raises(LiteRtError, match=re.escape(what)) as error:
        read(asking(f"input_strides = [{strides}, unit]"))
    assert error.value.where == "test.mlir:6:1"


def test_strides_of_a_function_are_checked_for_each_of_its_layers() -> None:
    text = CHAIN.replace("[[10, 1]]", "[[5, 1]]")
    for passes in (TO_BUFFERS, "adjust-layouts", "lower-ie-to-iert"):
        with pytest.raises(LiteRtError, match="elements would overlap") as error:
            run(text, passes)
        assert "'Rows'" in error.value.where or passes == "lower-ie-to-iert"


def test_strides_of_a_shape_that_a_run_tells_are_refused() -> None:
    text = CHAIN.replace("4x6", "?x6").replace(
        "attributes {", "attributes {IE.output_shapes = [0 : i64], ", 1
    )
    text = text.replace(") {", ") attributes {IE.bounds = [array<i64: 4, 6>]} {")
    with pytest.raises(
        LiteRtError,
        match=r"the strides \[10, 1\] for a tensor, but the tensor's shape is known only at run time",
    ) as error:
        run(text, TO_BUFFERS)
    assert error.value.status is Status.UNSUPPORTED


def test_strides_without_a_kernel_s_pitches_are_refused(tmp_path: Path) -> None:
    """Checks a stride of 17 elements, which is not a whole number of pixels with 2 channels."""
    edits = {"IE.input_strides = [true]": "IE.input_strides = [[68, 17, 2, 1]]"}
    with pytest.raises(
        LiteRtError,
        match=r"strides \[68, 17, 2, 1\] at offset 0 do not describe a part of a larger tensor",
    ):
        compile_gain(tmp_path, BYXF, edits)
