"""Tests the library's ops as layers of the IE level: text, verification and lowering."""

from __future__ import annotations

import pytest
from xdsl.ir import Attribute

from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from vendor_reference.compiler.ir.text import print_ir, read_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.library.library_op import Attributes, library_ops
from vendor_reference.compiler.library_layers import (
    layer_attributes,
    library_layers,
    read_attributes,
)
from vendor_reference.compiler.opt import transform_text

CONTEXT = make_context(list(library_layers().values()))

FUNCTION = """
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> {result} {{
  %0 = {op} : tensor<2x3xf32>, tensor<3xf32> -> {result}
  return %0 : {result}
}}
"""

ONE = """
func.func @f(%a: {type}) -> {result} {{
  %0 = {op} : {type} -> {result}
  return %0 : {result}
}}
"""


def test_what_a_layer_is_comes_back_from_its_text() -> None:
    b = ModelBuilder()
    scales = [Quantization([0.1], [3]), Quantization([1 / 3], [-128])]
    x = b.input("x", "int8", (2, 3), quantization=scales[0])
    y = b.tensor("y", "int8", (2, 3), quantization=scales[1])
    b.op("LEAKY_RELU", [x], [y], alpha=0.3)
    op = b.build().subgraphs[0].ops[0]
    made = library_ops()["LEAKY_RELU"].attributes(op)
    layer = print_attributes_of(made)
    assert read_attributes(layer) == made


def print_attributes_of(made: Attributes) -> dict[str, Attribute]:
    """Writes a layer with these attributes, reads it again, and returns its attributes."""
    text = ONE.format(type="tensor<2x3xi8>", result="tensor<2x3xi8>", op="IE.LeakyReLU(%a)")
    ir = read_ir(text.encode(), "a.mlir", CONTEXT)
    layer = next(op for op in ir.module.walk() if op.name == "IE.LeakyReLU")
    layer.attributes.update(layer_attributes(made))
    again = read_ir(print_ir(ir.module, ir.aliases).encode(), "b.mlir", CONTEXT)
    check_ir(again.module)
    return dict(next(op for op in again.module.walk() if op.name == "IE.LeakyReLU").attributes)


@pytest.mark.parametrize(
    ("op", "result", "says"),
    [
        (
            "IE.Add(%a, %b)",
            "tensor<2x4xf32>",
            "the result tensor<2x4xf32> does not fit the operands",
        ),
        (
            'IE.Add(%a, %b) {activation = "COS"}',
            "tensor<2x3xf32>",
            "fused activation COS is not supported",
        ),
        (
            'IE.Maximum(%a, %b) {activation = "RELU"}',
            "tensor<2x3xf32>",
            "fused activation RELU is not supported",
        ),
        ("IE.Concat(%a, %b) {axis = 7 : i64}", "tensor<2x3xf32>", "along dimension 7"),
        ("IE.Concat(%a, %b)", "tensor<2x3xf32>", "along dimension None"),
        (
            "IE.Concat(%a, %b) {axis = 0 : i64}",
            "tensor<2x3xf32>",
            "the result tensor<2x3xf32> does not fit the operands",
        ),
        (
            "IE.Negative(%a, %b)",
            "tensor<2x3xf32>",
            "the op has 2 inputs and 1 output, but must have 1 input and 1 output",
        ),
    ],
)
def test_layers_that_no_kernel_does_are_no_valid_text(op: str, result: str, says: str) -> None:
    text = FUNCTION.format(op=op, result=result)
    with pytest.raises(LiteRtError) as error:
        transform_text(text.encode(), "a.mlir", "")
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("op", "types", "says"),
    [
        ("IE.Transpose(%a)", "3,4 -> 4,3", "() is not a permutation of 2 dimensions"),
        ("IE.Transpose(%a) {order = array<i64: 1, 5>}", "3,4 -> 4,3", "is not a permutation"),
        (
            "IE.Reshape(%a)",
            "3,4 -> 5",
            "the result tensor<5xf32> does not fit the operands tensor<3x4xf32>",
        ),
        ("IE.LeakyReLU(%a)", "3 -> 3", "the slope 'alpha' is not a finite number"),
        (
            "IE.Pad(%a)",
            "3 -> 5",
            "the paddings are [] before and [] after, but each list needs one number",
        ),
        (
            "IE.Pad(%a) {before = array<i64: 1>, after = array<i64: 1>}",
            "3 -> 5",
            "attribute 'value', the padding value, is missing or not a number",
        ),
        (
            "IE.Pad(%a) {before = array<i64: 1>, after = array<i64: 1>, value = 1.0e+300 : f64}",
            "3 -> 5",
            "the padding value 1e+300 does not fit type FLOAT32",
        ),
    ],
)
def test_attributes_of_a_text_are_checked(op: str, types: str, says: str) -> None:
    source, result = (f"tensor<{t.replace(',', 'x')}xf32>" for t in types.split(" -> "))
    with pytest.raises(LiteRtError) as error:
        transform_text(ONE.format(op=op, type=source, result=result).encode(), "a.mlir", "")
    assert says in str(error.value)


def test_a_text_of_builtin_layers_is_lowered_to_tasks() -> None:
    text = """
    #NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
    func.func @f(%a: tensor<1x2x4x3xf32>, %b: tensor<3xf32>) -> tensor<24xf32> {
      %0 = IE.Add(%a, %b) : tensor<1x2x4x3xf32>, tensor<3xf32> -> tensor<1x2x4x3xf32>
      %1 = IE.Sigmoid(%0) : tensor<1x2x4x3xf32> -> tensor<1x2x4x3xf32>
      %2 = IE.Reshape(%1) : tensor<1x2x4x3xf32> -> tensor<24xf32>
      return %2 : tensor<24xf32>
    }
    """
    passes = "lower-ie-to-iert,lower-iert-to-vpuip,assign-memory-spaces,plan-memory"
    lowered = transform_text(text.encode(), "a.mlir", passes, "EMU8")
    assert "VPUIP.Command @Add (%a, %b)" in lowered
    assert "VPUIP.Command @Sigmoid" in lowered and "@Reshape" not in lowered
