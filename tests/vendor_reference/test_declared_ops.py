"""Tests ops outside the library: written as ops, and lowered like calls of the functions that declare them."""

from __future__ import annotations

import re

import pytest

from litert.core.errors import LiteRtError
from tests.vendor_reference.ir_texts import normal, read, run
from vendor_reference.compiler.pass_pipeline import pipeline

KERNEL = 'VPUIP.kernel = {title = "k", arguments = [{input = 0 : i64}, {output = 0 : i64}], global_size = ["X"]}'
CHW = "affine_map<(a, b, c) -> (c, a, b)>"
OP = f"""
func.func private @Gain(tensor<2x3x4xf32>) -> tensor<2x3x4xf32> attributes {{{KERNEL}, VPUIP.task = "OCL",
    IE.input_layouts = [{CHW}], IE.output_layouts = [{CHW}], IE.input_precisions = [f16]}}
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {{
  %y = IE.Gain(%x) {{name = "first"}} : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %z = IE.Gain(%y) : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  return %z
}}
"""
CALL = re.sub(r"IE\.Gain(\(%\w\).*?) : (.*)", r"func.call @Gain\1 : (\2", OP).replace(
    "f32> -> tensor<2x3x4xf32>\n  ", "f32>) -> tensor<2x3x4xf32>\n  "
)

OPEN = f"""
func.func private @Twice(tensor<?x3xf32>) -> tensor<?x6xf32> attributes {{VPUIP.task = "OCL",
    IE.output_shapes = [["B", "6"]], {KERNEL}}}
func.func private @Found(tensor<?x6xf32>) -> tensor<?x2xi32> attributes {{VPUIP.task = "OCL",
    IE.output_shapes = [["B", "2"]], VPUIP.kernel = {{title = "f", global_size = ["1"], arguments = [
      {{input = 0 : i64}}, {{output = 0 : i64}}, {{shape_of_output = 0 : i64}}, {{internal = "8", type = f32}}]}}}}
func.func @main(%x: tensor<?x3xf32>) -> tensor<?x2xi32> attributes {{IE.bounds = [array<i64: 10, 3>]}} {{
  %y = IE.Twice(%x) : tensor<?x3xf32> -> tensor<?x6xf32>
  %z = IE.Found(%y) : tensor<?x6xf32> -> tensor<?x2xi32>
  return %z
}}
"""


def as_calls(text: str) -> str:
    """Removes the attribute `IE.is_op`, which marks functions whose calls are written as ops."""
    return re.sub(r",?\s*IE\.is_op", "", text)


@pytest.mark.parametrize("count", range(len(pipeline()) + 1))
def test_an_op_is_lowered_as_a_call_of_its_function_is(count: int) -> None:
    passes = ",".join(pipeline()[:count])
    op, call = run(OP, passes), run(CALL, passes)
    marked = run(CALL.replace("[f16]}", "[f16], IE.is_op}"), passes)
    assert as_calls(op).split() == as_calls(marked).split()
    if count == len(pipeline()):
        assert as_calls(op).split() == call.split()


def test_an_op_keeps_its_name_on_all_levels() -> None:
    assert run(OP, "convert-precisions,adjust-layouts").count("= IE.Gain(%") == 2
    assert run(OP, ",".join(pipeline()[:9])).count("IERT.Gain(%") == 2
    tasks = run(OP, ",".join(pipeline()))
    assert tasks.count("VPUIP.OCL @Gain (%") == 2


def test_shapes_and_scratch_of_an_op_on_buffers_are_told_apart() -> None:
    passes = "add-shape-values,bound-shapes"
    text = run(OPEN, passes)
    assert "= IE.Twice(%x)[%x_shape][%y_shape] : tensor<10x3xf32>, !shape.shape, !shape" in text
    assert "%z, %z_shape = IE.Found(%y)[%y_shape] : tensor<10x6xf32>, !shape.shape -> " in text
    text = run(OPEN, f"{passes},lower-ie-to-iert")
    assert "IERT.Twice(%x, %y)[%x_shape, %y_shape]\n" in text
    assert "IERT.Found(%y, %z, %0)[%y_shape, %z_shape] {num_scratch = 1 : i64}" in " ".join(
        text.split()
    )
    text = run(OPEN, f"{passes},lower-ie-to-iert,lower-iert-to-vpuip")
    assert "VPUIP.OCL @Twice (%x)[%x_shape] -> (%y)[%y_shape] {" in text
    assert "VPUIP.OCL @Found (%y)[%y_shape] -> (%z)[%z_shape] scratch (%0) {" in text


def test_several_outputs_are_counted_as_the_function_says() -> None:
    text = """
        func.func private @Split(memref<8xf32>, memref<4xf32>, memref<4xf32>)
            attributes {IE.output_layouts = [unit, unit]}
        func.func @main(%x: memref<8xf32>, %a: memref<4xf32>, %b: memref<4xf32>) {
          IERT.Split(%x, %a, %b) {num_outputs = 2 : i64}
          return
        }
    """
    assert "IERT.Split(%x, %a, %b) {num_outputs = 2 : i64}" in normal(text)
    with pytest.raises(LiteRtError, match="the op has 1 output, but must have 2"):
        read(text.replace(" {num_outputs = 2 : i64}", ""))


def test_ops_of_other_types_get_functions_of_their_own() -> None:
    text = """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf16> {
          %y = IE.Half(%x) : tensor<4xf32> -> tensor<4xf16>
          %z = IE.Half(%y) : tensor<4xf16> -> tensor<4xf16>
          return %z
        }
        func.func private @Half(tensor<1xf32>) -> tensor<1xf32>
    """
    printed = normal(text)
    assert "%y = IE.Half(%x) : " in printed and "%z = IE.Half_1(%y) : " in printed
    assert "@Half(tensor<4xf32>) -> tensor<4xf16> attributes {IE.is_op}" in printed
    assert "@Half_1(tensor<4xf16>) -> tensor<4xf16> attributes {IE.is_op}" in printed


X = "%x = IE.Constant tensor<4xf32> = dense<1.0>"
ONE = "tensor<4xf32> -> tensor<4xf32>"
UNDECLARED = "neither in the vendor's library of builtin ops nor declared by a function"
WRONG = {
    "nothing declares it": (f"IE.Gone(%x) : {ONE}", "", "op 'Gone' is " + UNDECLARED, "2:1"),
    "a misspelt op of the library": (f"IE.Ad(%x) : {ONE}", "", "op 'Ad' is " + UNDECLARED, "2:1"),
    "a function with a body": (f"IE.f(%x) : {ONE}", "func.func @f() {return}", "op 'f' is " + UNDECLARED, "2:1"),
    "other inputs": (
        f"IE.Two(%x) : {ONE}", "", "1 input and 1 output, but the function declares 2 inputs and 1 output", "2:1",
    ),
    "no output": ("IE.One(%x) : tensor<4xf32> ->", "", "the layer has no outputs", "2:1"),
    "no op at all": ("IE.One", "", "expected", "3:1"),
    "MLIR's own form": (
        '"IE.One"(%x) : (tensor<4xf32>) -> ()', "", "library of builtin ops does not have this op", "2:9",
    ),
    "tensors on IERT": ("IERT.One(%x, %x)", X, "tensor<4xf32>, but must be a memref", "2:1"),
    "no tensor": (
        "IE.One(%x) : tensor<4xf32> -> i8", "", "i8, but must be a tensor", "2:1"),
    "shapes that are not its": (
        "IE.Open(%x)[%s, %s] : tensor<4xf32>, !shape.shape -> tensor<4xf32>",
        "%s = IE.ActualShapeOf %x : tensor<4xf32> -> !shape.shape",
        "2 shape operands, but in the op's function, the attribute dynamic_inputs = [0] has 1 element", "2:1"),
    "a shape in front of its tensor": (
        "IE.One(%x) : tensor<4xf32> -> !shape.shape, tensor<4xf32>", "",
        "write all tensors first, and then their shapes", "2:14"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_op_that_is_not_as_declared_is_an_error_with_its_place(name: str) -> None:
    line, more, what, place = WRONG[name]
    text = f"""{more}
{line}
func.func private @One(tensor<4xf32>) -> tensor<4xf32>
func.func private @Two(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func private @Open(tensor<4xf32>) -> tensor<4xf32> attributes {{dynamic_inputs = [0 : i64]}}
"""
    with pytest.raises(LiteRtError, match=re.escape(what)) as error:
        read(text)
    assert error.value.where == f"test.mlir:{place}"
    assert "The line is: " in error.value.hint


def test_a_function_cannot_stand_for_an_op_of_the_library() -> None:
    text = """
        func.func private @Copy(tensor<4xf32>) -> tensor<4xf32> attributes {IE.is_op}
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = func.call @Copy(%x) : (tensor<4xf32>) -> tensor<4xf32>
          return %y
        }
    """
    with pytest.raises(
        LiteRtError,
        match=r"'IE\.Copy' cannot declare an op: the vendor's library of builtin ops has an op with this name",
    ) as error:
        read(text)
    assert error.value.where == "test.mlir:2:1"
    assert "func.call @Copy(" in normal(text.replace(" attributes {IE.is_op}", ""))
