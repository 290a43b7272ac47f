"""Tests the pass that gives layers the precisions they require, with IR texts before and after it."""

from __future__ import annotations

import numpy as np
import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from tests.vendor_reference.ir_texts import normal, run
from vendor_reference.compiler.library_layers import library_layers
from vendor_reference.compiler.passes.convert_precisions import is_exact

HALVES = """
func.func private @Halves(tensor<4x{0}>, tensor<4xf32>) -> tensor<4x{0}>
    attributes {{IE.input_precisions = [f16, unit], IE.output_precisions = [f16]}}
"""


def test_a_layer_gets_the_precisions_that_it_asks_for() -> None:
    before = (
        HALVES.format("f32")
        + """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %y = func.call @Halves(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
      }
    """
    )
    after = (
        HALVES.format("f16").replace("tensor<4xf16>, tensor<4xf32>", "tensor<4xf16>, tensor<4xf32>")
        + """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = IE.Convert(%x) : tensor<4xf32> -> tensor<4xf16>
        %y = func.call @Halves(%0, %x) : (tensor<4xf16>, tensor<4xf32>) -> tensor<4xf16>
        %1 = IE.Convert(%y) : tensor<4xf16> -> tensor<4xf32>
        func.return %1 : tensor<4xf32>
      }
    """
    )
    assert run(before, "convert-precisions") == normal(after)
    assert run(after, "convert-precisions") == normal(after)


def test_a_builtin_layer_that_computes_floats_gets_floats() -> None:
    before = """
      func.func @main(%x: tensor<2x4xf16>, %w: tensor<3x4xf32>) -> tensor<2x3xf16> {
        %y = IE.FullyConnected(%x, %w) {activation = "NONE", is_constant = false} :
            tensor<2x4xf16>, tensor<3x4xf32> -> tensor<2x3xf16>
        func.return %y : tensor<2x3xf16>
      }
    """
    after = """
      func.func @main(%x: tensor<2x4xf16>, %w: tensor<3x4xf32>) -> tensor<2x3xf16> {
        %0 = IE.Convert(%x) : tensor<2x4xf16> -> tensor<2x4xf32>
        %y = IE.FullyConnected(%0, %w) {activation = "NONE", is_constant = false} :
            tensor<2x4xf32>, tensor<3x4xf32> -> tensor<2x3xf32>
        %1 = IE.Convert(%y) : tensor<2x3xf32> -> tensor<2x3xf16>
        func.return %1 : tensor<2x3xf16>
      }
    """
    layers = list(library_layers().values())
    assert run(before, "convert-precisions", layers) == normal(after, layers)
    with pytest.raises(
        LiteRtError,
        match="supports only tensors of type FLOAT32, but the op has other types",
    ) as error:
        run(before, "lower-ie-to-iert,lower-iert-to-vpuip", layers)
    assert error.value.hint == "Run the pass convert-precisions before this pass."


def test_between_two_layers_that_agree_there_is_no_conversion() -> None:
    """Checks a half that is converted to float only because the model's tensor is float."""
    before = (
        HALVES.format("f32")
        + """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %a = func.call @Halves(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %b = func.call @Halves(%a, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        func.return %b : tensor<4xf32>
      }
    """
    )
    after = run(before, "convert-precisions")
    assert after.count("IE.Convert") == 2
    assert "%b = func.call @Halves(%a, %x)" in after


def test_equal_conversions_of_a_value_are_one() -> None:
    before = (
        HALVES.format("f32")
        + """
      func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>) {
        %a = func.call @Halves(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %b = func.call @Halves(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %c = IE.Convert(%x) : tensor<4xf32> -> tensor<4xf16>
        func.return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf16>
      }
    """
    )
    after = run(before, "convert-precisions")
    assert after.count("tensor<4xf32> -> tensor<4xf16>\n") == 1


@pytest.mark.parametrize(
    ("there", "back", "rest"),
    [
        ("f16", "f32", 0),
        ("f32", "f16", 2),
        ("i8", "f32", 0),
        ("i32", "f32", 2),
        ("ui8", "i16", 0),
        ("f32", "i32", 2),
        ("i16", "ui16", 2),
    ],
)
def test_a_conversion_there_and_back_goes_where_it_is_exact(
    there: str, back: str, rest: int
) -> None:
    before = f"""
      func.func @main(%x: tensor<4x{there}>) -> tensor<4x{there}> {{
        %0 = IE.Convert(%x) : tensor<4x{there}> -> tensor<4x{back}>
        %1 = IE.Convert(%0) : tensor<4x{back}> -> tensor<4x{there}>
        func.return %1 : tensor<4x{there}>
      }}
    """
    assert run(before, "convert-precisions").count("IE.Convert") == rest


def test_of_an_exact_conversion_and_another_the_first_goes() -> None:
    before = """
      func.func @main(%x: tensor<4xf16>) -> tensor<4xi32> {
        %0 = IE.Convert(%x) : tensor<4xf16> -> tensor<4xf32>
        %1 = IE.Convert(%0) : tensor<4xf32> -> tensor<4xi32>
        func.return %1 : tensor<4xi32>
      }
    """
    assert "IE.Convert(%x) : tensor<4xf16> -> tensor<4xi32>" in run(before, "convert-precisions")
    negative = before.replace("f16", "i8").replace("i32", "ui8")
    assert run(negative, "convert-precisions") == normal(negative)  # -1.0 does not become 255


def test_a_layer_that_two_calls_want_of_other_types_is_two() -> None:
    """Checks two layers, one of which already gets halves."""
    before = """
      func.func private @Any(tensor<4xf32>) -> tensor<4xf32>
          attributes {IE.input_precisions = [unit], IE.output_precisions = [f16], VPUIP.task = "OCL"}
      func.func private @Other(tensor<4xf32>) -> tensor<4xf32> attributes {IE.output_precisions = [unit]}
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = func.call @Any(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %1 = func.call @Other(%0) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %1 : tensor<4xf32>
      }
    """
    after = run(before, "convert-precisions")
    assert "@Any(tensor<4xf32>) -> tensor<4xf16>" in after
    assert "@Other(tensor<4xf32>) -> tensor<4xf32>" in after


def test_a_binary_layer_gets_the_precisions_that_it_asks_for() -> None:
    before = """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %code = IE.Constant tensor<2xui8> = dense<0>
        %y = IE.CustomBinaryLayer VPUIP.OCL from %code (%x : tensor<4xf32>) -> tensor<4xf32>
            {input_precisions = [f16], output_precisions = [i8]}
        func.return %y : tensor<4xf32>
      }
    """
    after = run(before, "convert-precisions")
    assert "(%0 : tensor<4xf16>) -> tensor<4xi8>" in after and after.count("IE.Convert") == 2


NUMBERS = [
    t for t in ElementType if t.name.rstrip("0123456789") in ("INT", "UINT", "FLOAT", "BOOL")
]
NUMBERS = [t for t in NUMBERS if t.bits >= 8]


@pytest.mark.parametrize("source", NUMBERS, ids=lambda t: t.name)
def test_what_is_called_exact_is_so(source: ElementType) -> None:
    """Converts extremes and odd numbers near them: exact conversions keep all of them, others change one."""
    if source.name.startswith("FLOAT"):
        info = np.finfo(source.numpy_dtype)
        numbers = np.array([info.max, info.tiny, 1 + info.eps], source.numpy_dtype)
    elif source is ElementType.BOOL:
        numbers = np.array([False, True])
    else:
        limits = np.iinfo(source.numpy_dtype)
        numbers = np.array([limits.min, limits.max, limits.max // 2], source.numpy_dtype)
    for target in NUMBERS:
        with np.errstate(all="ignore"):
            there = numbers.astype(target.numpy_dtype)
            is_same = bool(np.all(there.astype(np.longdouble) == numbers.astype(np.longdouble)))
        assert is_exact(source, target) == is_same, target.name
