"""Tests that operands of a concatenation and of padding are written directly into their place in the result."""

from __future__ import annotations

import pytest

from vendor_reference.compiler.opt import transform_text

PASSES = "lower-ie-to-iert,place-parts"


def placed(body: str, result: str, arguments: str = "%x: tensor<2x3xf32>") -> str:
    text = f"func.func @f({arguments}) -> {result} {{\n{body}\n}}"
    return transform_text(text.encode(), "a.mlir", PASSES, "EMU8")


JOINED = """
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = IE.Tanh(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = IE.Concat(%0, %1) {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x6xf32>
  %3 = IE.ReLU(%2) : tensor<2x6xf32> -> tensor<2x6xf32>
  return %3 : tensor<2x6xf32>
"""


def test_a_concatenation_of_results_is_no_task() -> None:
    text = placed(JOINED, "tensor<2x6xf32>")
    assert "IERT.Concat" not in text and text.count("memref.alloc") == 1
    assert "memref<2x3xf32, strided<[6, 1]>>" in text
    assert "memref<2x3xf32, strided<[6, 1], offset: 3>>" in text
    alloc, sigmoid = text.index("memref.alloc"), text.index("IERT.Sigmoid")
    assert alloc < text.index("IERT.View") < sigmoid


def test_what_is_not_made_here_is_copied() -> None:
    body = """
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = IE.Concat(%x, %0) {axis = 0 : i64} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
"""
    text = placed(body, "tensor<4x3xf32>")
    assert "IERT.Concat(%x, " in text and "in_place = array<i64: 1>" in text
    assert "memref.alloc" not in text  # the result is written into the function's output


def test_padding_fills_around_what_is_there() -> None:
    body = """
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = IE.Pad(%0) {before = array<i64: 1, 0>, after = array<i64: 0, 2>, value = 0 : i64}
      : tensor<2x3xf32> -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
"""
    text = placed(body, "tensor<3x5xf32>")
    assert "strided<[5, 1], offset: 5>" in text and "in_place = array<i64: 0>" in text


@pytest.mark.parametrize(
    "op",
    [
        "IE.Pad(%0) {before = array<i64: 0, 0>, after = array<i64: 0, 0>, value = 0 : i64}"
        " : tensor<2x3xf32>",
        "IE.Concat(%0, %e) {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x0xf32>",
    ],
)
def test_where_nothing_is_left_to_write_there_is_no_task(op: str) -> None:
    body = f"""
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = {op} -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
"""
    text = placed(body, "tensor<2x3xf32>", "%x: tensor<2x3xf32>, %e: tensor<2x0xf32>")
    assert "IERT.Pad" not in text and "IERT.Concat" not in text and "memref.alloc" not in text


@pytest.mark.parametrize(
    ("why", "between"),
    [
        ("a view reads it whole", "%r = IE.Reshape(%0) : tensor<2x3xf32> -> tensor<6xf32>"),
        (
            "a layer may not take strides",
            "%r = func.call @Mine(%0) : (tensor<2x3xf32>) -> tensor<6xf32>",
        ),
    ],
)
def test_a_buffer_that_others_read_as_it_is_stays(why: str, between: str) -> None:
    body = f"""
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  {between}
  %1 = IE.Tanh(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = IE.Concat(%0, %1) {{axis = 1 : i64}} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x6xf32>
  return %2, %r : tensor<2x6xf32>, tensor<6xf32>
"""
    mine = "func.func private @Mine(tensor<2x3xf32>) -> tensor<6xf32> attributes {"
    mine += 'VPUIP.task = "OCL", VPUIP.kernel = {title = "Mine", arguments = []}}'
    result = "(tensor<2x6xf32>, tensor<6xf32>)"
    text = f"{mine}\nfunc.func @f(%x: tensor<2x3xf32>) -> {result} {{\n{body}\n}}"
    assert "in_place = array<i64: 1>" in transform_text(text.encode(), "a.mlir", PASSES, "EMU8"), (
        why
    )


def test_the_same_operand_twice_is_copied_twice() -> None:
    body = """
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = IE.Concat(%0, %0) {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
"""
    text = placed(body, "tensor<2x6xf32>")
    assert "in_place" not in text and "strided" not in text


def test_parts_of_parts_are_written_at_once() -> None:
    body = """
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = IE.Tanh(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = IE.Concat(%0, %1) {axis = 0 : i64} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<4x3xf32>
  %3 = IE.Pad(%2) {before = array<i64: 0, 1>, after = array<i64: 0, 0>, value = 0 : i64}
      : tensor<4x3xf32> -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
"""
    text = placed(body, "tensor<4x4xf32>")
    assert "memref.alloc" not in text and "IERT.Concat" not in text
    assert "memref<2x3xf32, strided<[4, 1], offset: 9>>" in text


def test_a_part_takes_no_place_that_is_too_small_for_the_whole() -> None:
    body = """
  %0 = IE.Sigmoid(%x) : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = IE.Tanh(%0) : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = IE.Pad(%1) {before = array<i64: 0, 0>, after = array<i64: 1, 0>, value = 0 : i64}
      : tensor<2x3xf32> -> tensor<3x3xf32>
  %3 = IE.Concat(%2, %2) {axis = 0 : i64} : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<6x3xf32>
  return %3 : tensor<6x3xf32>
"""
    text = f"func.func @f(%x: tensor<2x3xf32>) -> tensor<6x3xf32> {{\n{body}\n}}"
    passes = f"{PASSES},lower-iert-to-vpuip,assign-memory-spaces,plan-memory"
    assert "VPUIP.DeclareBuffer" in transform_text(text.encode(), "a.mlir", passes, "EMU8")


def placed_open(op: str, x: str, y: str, result: str, *bounds: str) -> str:
    """Places an op that joins tensors computed from `%x` and `%y`, whose shapes are dynamic."""
    x, y, result = (f"tensor<{shape}xf32>" for shape in (x, y, result))
    text = f"""func.func @f(%x: {x}, %y: {y}) -> {result}
    attributes {{IE.bounds = [{", ".join(f"array<i64: {bound}>" for bound in bounds)}]}} {{
  %0 = IE.Sigmoid(%x) : {x} -> {x}
  %1 = IE.Tanh(%y) : {y} -> {y}
  %2 = IE.{op} : {x}, {y} -> {result}
  return %2 : {result}
}}"""
    passes = f"add-shape-values,bound-shapes,{PASSES}"
    return transform_text(text.encode(), "a.mlir", passes, "EMU8")


def test_parts_of_an_open_number_of_images_are_written_where_they_belong() -> None:
    join = "Concat(%0, %1) {axis = 2 : i64}"
    text = placed_open(join, "?x5x3", "?x5x4", "?x5x7", "8, 5, 3", "8, 5, 4")
    assert "IERT.Concat" not in text and "memref.alloc() : memref<8x" not in text
    assert "memref<8x5x3xf32, strided<[35, 7, 1]>>" in text
    assert "memref<8x5x4xf32, strided<[35, 7, 1], offset: 3>>" in text


def test_what_is_behind_an_open_number_has_no_place_before_a_run() -> None:
    join = "Concat(%0, %1) {axis = 0 : i64}"
    text = placed_open(join, "?x5", "?x5", "?x5", "8, 5", "4, 5")
    assert "in_place = array<i64: 0>" in text


def test_parts_of_images_of_open_size_are_copied() -> None:
    join = "Concat(%0, %1) {axis = 2 : i64}"
    text = placed_open(join, "?x?x3", "?x?x4", "?x?x7", "8, 5, 3", "8, 5, 4")
    assert "IERT.Concat" in text and "in_place" not in text and "strided" not in text


def test_a_part_whose_bound_is_larger_than_that_of_the_whole_is_copied() -> None:
    join = "Concat(%0, %1) {axis = 1 : i64}"
    text = placed_open(join, "?x3", "?x4", "?x7", "8, 3", "4, 4")
    assert "in_place = array<i64: 1>" in text and "memref<8x3xf32, strided" not in text
