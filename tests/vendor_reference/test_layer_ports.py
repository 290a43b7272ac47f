"""Tests that an external function's requirements on tensors must match the tensors of its calls."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from vendor_reference.compiler.opt import transform_text

CALL = """\
func.func private @Half(tensor<2x3x4x5xf16>) -> tensor<2x3x4x5xf16> attributes {{{attributes}}}
func.func @main(%x: tensor<2x3x4x5xf16>) -> tensor<2x3x4x5xf16> {{
  %y = func.call @Half(%x) : (tensor<2x3x4x5xf16>) -> tensor<2x3x4x5xf16>
  func.return %y : tensor<2x3x4x5xf16>
}}
"""
BINARY = """\
func.func @main(%x: tensor<2x3xf16>) -> tensor<2x3xf16> {
  %code = IE.Constant tensor<16xui8> = dense_resource<code>
  %y = IE.CustomBinaryLayer VPUIP.OCL from %code (%x : tensor<2x3xf16>) -> tensor<2x3xf16>
      {input_layouts = [affine_map<(n, h, w) -> (w, n, h)>], output_layouts = [unit]}
  func.return %y : tensor<2x3xf16>
}
"""
KERNEL = 'VPUIP.task = "OCL", VPUIP.kernel = {{title = "Half", arguments = [{}]}}'


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            "IE.input_layouts = [affine_map<(n, h, w) -> (w, n, h)>]",
            "input 0 has rank 4, but its layout is for rank 3 (function 'Half')",
        ),
        (
            "IE.output_layouts = [affine_map<(n) -> (n)>]",
            "output 0 has rank 4, but its layout is for rank 1 (function 'Half')",
        ),
        (
            KERNEL.format("{input = 7 : i64}, {output = 0 : i64}"),
            "argument 0 of the kernel is bound to input 7, but in the layer, the only input has index 0 "
            "(function 'Half')",
        ),
        (
            KERNEL.format("{input = 0 : i64}, {output = 1 : i64}"),
            "argument 1 of the kernel is bound to output 1, but in the layer, the only output has index 0 "
            "(function 'Half')",
        ),
    ],
)
def test_what_does_not_suit_is_told_with_the_function(attributes: str, message: str) -> None:
    text = CALL.format(attributes=attributes)
    with pytest.raises(LiteRtError) as error:
        transform_text(text.encode(), "a.mlir", "adjust-layouts")
    assert message in str(error.value)


def test_an_input_that_the_op_leaves_out_counts() -> None:
    kernel = KERNEL.format("{input = 1 : i64}, {output = 0 : i64}")
    kernel = kernel.replace("arguments", "absent_inputs = [0 : i64], arguments")
    text = CALL.format(attributes=kernel)
    assert "func.call @Half" in transform_text(text.encode(), "a.mlir", "adjust-layouts")


def test_a_layer_that_is_compiled_ahead_is_checked_too() -> None:
    with pytest.raises(LiteRtError, match="input 0 has rank 2, but its layout is for rank 3"):
        transform_text(BINARY.encode(), "a.mlir", "adjust-layouts")
