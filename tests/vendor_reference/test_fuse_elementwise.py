"""Tests which element-wise layers are fused into one, by IR texts before and after the pass."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.opt import transform_text

FUSED = {
    "a value that is read twice": (
        """
  %0 = IE.Add(%a, %b) : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %1 = IE.Sigmoid(%0) : tensor<4x8xf32> -> tensor<4x8xf32>
  %r = IE.Multiply(%0, %1) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
""",
        """
%r = IE.Chain(%a, %b) {
  expression = "x0 = a + b; x1 = logistic(x0); x0 * x1",
  layers = "ADD+LOGISTIC+MUL"
} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
""",
    ),
    "an operand that is as large as the result comes first": (
        """
  %0 = IE.Negative(%b) : tensor<8xf32> -> tensor<8xf32>
  %1 = IE.Subtract(%0, %a) : tensor<8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %r = IE.ReLU(%1) : tensor<4x8xf32> -> tensor<4x8xf32>
""",
        """
%0 = IE.Negative(%b) : tensor<8xf32> -> tensor<8xf32>
%r = IE.Chain(%a, %0) {expression = "x0 = b - a; max(0, x0)", layers = "SUB+RELU"} :
""",
    ),
    "conditions, and other types between": (
        """
  %0 = IE.Less(%a, %b) : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xi1>
  %1 = IE.Cast(%0) : tensor<4x8xi1> -> tensor<4x8xf32>
  %r = IE.Select(%0, %1, %a) : tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
""",
        """
%r = IE.Chain(%a, %b) {
  expression = "x0 = a < b; x1 = float(x0); x1 if x0 else a",
  layers = "LESS+CAST+SELECT_V2"
} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
""",
    ),
    "shapes that are the same in every run": (
        """
  %0 = IE.Less(%x, %b) : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xi1>
  %1 = IE.Convert(%0) : tensor<?x8xi1> -> tensor<?x8xf32>
  %2 = IE.Multiply(%b, %1) : tensor<8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %r = IE.Subtract(%2, %x) : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
""",
        """
%r = IE.Chain(%x, %b) {
  expression = "x0 = a < b; x1 = float(x0); x2 = b * x1; x2 - a",
  layers = "LESS+CONVERT+MUL+SUB"
} : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
""",
    ),
    "operands that a run may broadcast": (
        """
  %0 = IE.Add(%x, %y) : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %r = IE.ReLU(%0) : tensor<?x8xf32> -> tensor<?x8xf32>
""",
        """
%r = IE.Chain(%x, %y) {expression = "x0 = a + b; max(0, x0)", layers = "ADD+RELU"} :
""",
    ),
    "integers that stand for real numbers at both ends": (
        """
  %0 = IE.Dequantize(%q) {scales = array<f64: 0.5, 0.0>, zero_points = array<i64: 3, 0>}
    : tensor<4x8xi8> -> tensor<4x8xf32>
  %1 = IE.Tanh(%0) : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = IE.Quantize(%1) {scales = array<f64: 0.0, 0.25>, zero_points = array<i64: 0, -7>}
    : tensor<4x8xf32> -> tensor<4x8xi8>
  %r = IE.Dequantize(%2) {scales = array<f64: 0.25, 0.0>, zero_points = array<i64: -7, 0>}
    : tensor<4x8xi8> -> tensor<4x8xf32>
""",
        """
%0 = IE.Chain(%q) {
  expression = "tanh(a)",
  layers = "DEQUANTIZE+TANH+QUANTIZE",
  scales = array<f64: 5.000000e-01, 2.500000e-01>,
  zero_points = array<i64: 3, -7>
} : tensor<4x8xi8> -> tensor<4x8xi8>
%r = IE.Dequantize(%0)
""",
    ),
}

KEPT = {
    "another layer reads it": """
  %0 = IE.ReLU(%a) : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = IE.Exp(%0) : tensor<4x8xf32> -> tensor<4x8xf32>
  %r = IE.Concat(%0, %1) {axis = 0 : i64} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
""",
    "its rounding to halves would be lost": """
  %0 = IE.Cast(%a) : tensor<4x8xf32> -> tensor<4x8xf16>
  %r = IE.ReLU(%0) : tensor<4x8xf16> -> tensor<4x8xf16>
""",
    "it is shown": """
  %0 = IE.Exp(%a) {taps = ["x"]} : tensor<4x8xf32> -> tensor<4x8xf32>
  %r = IE.ReLU(%0) : tensor<4x8xf32> -> tensor<4x8xf32>
""",
    "it would be computed for each row": """
  %0 = IE.Exp(%b) : tensor<8xf32> -> tensor<8xf32>
  %r = IE.Add(%a, %0) : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
""",
    "a run may repeat it": """
  %0 = IE.Exp(%x) : tensor<?x8xf32> -> tensor<?x8xf32>
  %r = IE.Add(%0, %y) : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
""",
    "a run may tell another shape than the model": """
  %0 = IE.Exp(%x) : tensor<?x8xf32> -> tensor<?x8xf32>
  %r = IE.ReLU(%0) : tensor<?x8xf32> -> tensor<4x8xf32>
""",
}


def fused(body: str) -> str:
    """Runs the pass on a function and returns its text without the common indentation."""
    result = body.rsplit("-> ", 1)[1].strip()
    arguments = "%a: tensor<4x8xf32>, %b: tensor<8xf32>, %q: tensor<4x8xi8>"
    arguments += ", %x: tensor<?x8xf32>, %y: tensor<?x8xf32>"
    text = f"func.func @f({arguments}) -> {result} {{{body}  return %r : {result}\n}}"
    after = transform_text(text.encode(), "a.mlir", "fuse-elementwise")
    return "\n".join(line.removeprefix("    ") for line in after.splitlines())


@pytest.mark.parametrize("case", FUSED)
def test_layers_become_one_with_their_only_reader(case: str) -> None:
    before, after = FUSED[case]
    text = fused(before)
    assert after.strip() in text, text


@pytest.mark.parametrize("case", KEPT)
def test_a_layer_stays_where(case: str) -> None:
    assert "Chain" not in fused(KEPT[case])


def test_a_chain_has_no_more_operands_than_the_firmware() -> None:
    shape = "tensor<4xf32>"
    arguments = ", ".join(f"%a{i}: {shape}" for i in range(12))
    lines = [
        f"%r{i + 1} = IE.Add(%r{i}, %a{i}) : {shape}, {shape} -> {shape}" for i in range(1, 12)
    ]
    body = "\n".join(lines).replace("%r1,", "%a0,")
    text = f"func.func @f({arguments}) -> {shape} {{\n{body}\nreturn %r12 : {shape}\n}}"
    after = transform_text(text.encode(), "a.mlir", "fuse-elementwise")
    assert after.count("IE.Chain") == 2 and "IE.Add" not in after


def test_a_chain_has_a_greatest_length_so_that_many_layers_take_linear_time() -> None:
    shape = "tensor<4xf32>"
    lines = [f"%r{i + 1} = IE.Exp(%r{i}) : {shape} -> {shape}" for i in range(100)]
    body = "\n".join(lines)
    text = f"func.func @f(%r0: {shape}) -> {shape} {{\n{body}\nreturn %r100 : {shape}\n}}"
    after = transform_text(text.encode(), "a.mlir", "fuse-elementwise")
    assert after.count("IE.Chain(") == 4 and "IE.Exp" not in after


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("a +", "'a +' is not an expression"),
        ("import os; a", "is not an expression"),
        ("a.b", "'a.b' is not a valid expression with the operand a"),
        ("a + b", "'b' is not a valid expression with the operand a"),
        ("make_coffee(a)", "the firmware has no operation 'make_coffee_float'"),
        ("a < 1", "the expression has type int, but the result has type float"),
        ("a + int(a)", "have different types"),
        ("1 + 2", "is not a valid expression"),
        ("float(int(a) + 9999999999)", "the number 9999999999 does not fit type int"),
        ("a" + " + a * 2" * 3000, "is "),
        (
            "; ".join(f"x{i} = a + {i}" for i in range(40)) + "; a",
            "the expression needs 42 registers",
        ),
    ],
)
def test_an_expression_that_is_none_is_refused(expression: str, says: str) -> None:
    text = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    text += (
        f'  %0 = IE.Chain(%a) {{expression = "{expression}"}} : tensor<4xf32> -> tensor<4xf32>\n'
    )
    with pytest.raises(LiteRtError) as error:
        transform_text((text + "  return %0 : tensor<4xf32>\n}").encode(), "a.mlir", "")
    assert error.value.status is Status.INVALID_IR_TYPE and says in str(error.value)
