"""Tests that padding, additions and activations are fused into convolutions, unless they cannot be."""

from __future__ import annotations

import pytest

from tests.vendor_reference.ir_texts import run
from vendor_reference.compiler.library_layers import library_layers

IMAGE, PADDED = "tensor<1x4x4x8xf32>", "tensor<1x6x6x8xf32>"
WEIGHTS = "tensor<1x3x3x8xf32>"
WINDOWS = (
    'activation = "NONE", strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, '
    "pads_begin = array<i64: 0, 0>, pads_end = array<i64: 0, 0>"
)
PAD = "before = array<i64: 0, 1, 1, 0>, after = array<i64: 0, 1, 1, 0>, value = 0.0 : f64"


def fused(pad: str = PAD, behind: str = "IE.ReLU(%2)", returned: str = "%3") -> str:
    """Runs the pass on a convolution between padding and an activation, and returns the text."""
    more = f", {IMAGE}" if behind.count("%") > 1 else ""
    return run(
        f"""
        func.func @main(%x: {IMAGE}, %w: {WEIGHTS}, %y: {IMAGE}) -> {IMAGE} {{
          %1 = IE.Pad(%x) {{{pad}}} : {IMAGE} -> {PADDED}
          %2 = IE.DepthwiseConvolution(%1, %w) {{{WINDOWS}}} : {PADDED}, {WEIGHTS} -> {IMAGE}
          %3 = {behind} : {IMAGE}{more} -> {IMAGE}
          func.return {returned} : {IMAGE}
        }}
        """,
        "fuse-layers",
        list(library_layers().values()),
    )


@pytest.mark.parametrize(
    ("layer", "activation"),
    [("ReLU", "RELU"), ("ReLU6", "RELU6"), ("Tanh", "TANH"), ("HSwish", "HARD_SWISH")],
)
def test_padding_and_an_activation_become_a_part_of_a_convolution(
    layer: str, activation: str
) -> None:
    text = fused(behind=f"IE.{layer}(%2)")
    assert f'activation = "{activation}"' in text
    assert "pads_begin = array<i64: 1, 1>" in text and "pads_end = array<i64: 1, 1>" in text
    assert "IE.Pad" not in text and f"IE.{layer}" not in text


@pytest.mark.parametrize(
    "pad",
    [
        PAD.replace("value = 0.0", "value = 1.0"),
        "before = array<i64: 0, 2, 2, 0>, after = array<i64: 0, 0, 0, 0>, value = -0.5 : f64",
    ],
)
def test_padding_with_other_numbers_stays(pad: str) -> None:
    assert "IE.Pad" in fused(pad=pad)


def test_a_result_that_others_read_stays() -> None:
    assert 'activation = "NONE"' in fused(returned="%2")
    assert 'activation = "NONE"' in fused(behind="IE.Sqrt(%2)")


def test_an_addition_stays_where_the_layer_does_not_take_it() -> None:
    text = run(
        f"""
        func.func @main(%x: {IMAGE}, %y: {IMAGE}) -> {IMAGE} {{
          %1 = IE.MaxPool(%x) {{{WINDOWS}, kernel_size = array<i64: 1, 1>}} : {IMAGE} -> {IMAGE}
          %2 = IE.Add(%1, %y) : {IMAGE}, {IMAGE} -> {IMAGE}
          func.return %2 : {IMAGE}
        }}
        """,
        "fuse-layers",
        list(library_layers().values()),
    )
    assert "IE.Add" in text


DEPTHWISE = f"""
    func.func @main(%x: {IMAGE}, %w: tensor<1x1x1x8xf32>, %y: {IMAGE}, %s: tensor<1x1x8xf32>) -> {IMAGE} {{
      %2 = IE.DepthwiseConvolution(%x, %w) {{{WINDOWS}, has_bias = false}}
        : {IMAGE}, tensor<1x1x1x8xf32> -> {IMAGE}
      LAYERS
      func.return %9 : {IMAGE}
    }}
"""

CONVOLUTION = f"""
    func.func @main(%x: {IMAGE}, %w: tensor<8x1x1x8xf32>, %y: {IMAGE}, %s: tensor<1x1x8xf32>) -> {IMAGE} {{
      %2 = IE.Convolution(%x, %w) {{{WINDOWS}, is_constant = false, has_bias = false}}
        : {IMAGE}, tensor<8x1x1x8xf32> -> {IMAGE}
      LAYERS
      func.return %9 : {IMAGE}
    }}
"""


@pytest.mark.parametrize("convolution", [CONVOLUTION, DEPTHWISE], ids=["plain", "depthwise"])
@pytest.mark.parametrize(
    ("layers", "operands", "attributes"),
    [
        (["IE.Add(%2, %y)"], "%x, %w, %y", ['residual = "before"', 'activation = "NONE"']),
        (["IE.Add(%y, %2)", "IE.ReLU(%3)"], "%x, %w, %y", ['residual = "before"', '"RELU"']),
        (["IE.ReLU(%2)", "IE.Add(%3, %y)"], "%x, %w, %y", ['residual = "behind"', '"RELU"']),
        (["IE.Add(%2, %s)"], "%x, %w, %s", ["has_bias = true", '"NONE"']),
        (["IE.Add(%s, %2)", "IE.ReLU(%3)"], "%x, %w, %s", ["has_bias = true", '"RELU"']),
        (["IE.Add(%2, %s)", "IE.Add(%3, %y)"], "%x, %w, %s, %y", ["has_bias = true", '"before"']),
        (["IE.PReLU(%2, %s)"], "%x, %w, %s", ['activation = "PRELU"']),
        (["IE.PReLU(%2, %s)", "IE.Add(%3, %y)"], "%x, %w, %y, %s", ['"PRELU"', '"behind"']),
        (["IE.Add(%2, %y)", "IE.PReLU(%3, %s)"], "%x, %w, %y, %s", ['"PRELU"', '"before"']),
    ],
)
def test_additions_and_activations_in_either_order(
    convolution: str, layers: list[str], operands: str, attributes: list[str]
) -> None:
    lines = []
    for number, layer in enumerate(layers):
        types = [IMAGE if name != "%s" else "tensor<1x1x8xf32>" for name in _operands(layer)]
        result = "%9" if number == len(layers) - 1 else "%3"
        lines.append(f"{result} = {layer} : {', '.join(types)} -> {IMAGE}")
    text = convolution.replace("LAYERS", "\n".join(lines))
    left = run(text, "fuse-layers", list(library_layers().values()))
    assert f"Convolution({operands})" in left and left.count("IE.") == 1
    assert all(attribute in left for attribute in attributes)


def _operands(layer: str) -> list[str]:
    return layer.partition("(")[2].rstrip(")").split(", ")


OPEN = "tensor<?x?x?x8xf32>"
OPEN_WINDOWS = WINDOWS.replace("1, 1>, dil", "2, 2>, dil") + ', auto_pad = "SAME"'


def open_addition(other: str) -> str:
    """Runs the pass on the sum of another tensor and a convolution of `%x`, whose shape is dynamic."""
    return run(
        f"""
        func.func @main(%x: {OPEN}, %y: {OPEN}) -> {OPEN}
            attributes {{IE.bounds = [array<i64: 3, 9, 9, 8>, array<i64: 3, 9, 9, 8>]}} {{
          %k = IE.Constant tensor<8x3x3x8xf32> = dense_resource<k>
          %1 = IE.Convolution(%x, %k) {{{OPEN_WINDOWS}, is_constant = true, has_bias = false}}
            : {OPEN}, tensor<8x3x3x8xf32> -> {OPEN}
          {other}
          %3 = IE.Add(%1, %2) : {OPEN}, {OPEN} -> {OPEN}
          %4 = IE.ReLU(%3) : {OPEN} -> {OPEN}
          func.return %4 : {OPEN}
        }}
        """,
        "fuse-layers",
        list(library_layers().values()),
    )


POOL = f"IE.MaxPool(%x) {{{OPEN_WINDOWS}, kernel_size = array<i64: 2, 2>}} : {OPEN} -> {OPEN}"


def test_what_has_the_same_shape_in_every_run_is_added_in_a_convolution() -> None:
    text = open_addition(f"%2 = {POOL}")
    assert 'residual = "before"' in text and 'activation = "RELU"' in text


@pytest.mark.parametrize("other", [f"IE.ReLU(%y) : {OPEN} -> {OPEN}", POOL.replace("%x", "%y")])
def test_what_a_run_may_repeat_is_added_behind_a_convolution(other: str) -> None:
    text = open_addition(f"%2 = {other}")
    assert "IE.Add" in text and "residual" not in text


@pytest.mark.parametrize(
    ("shape", "is_left"), [("8", False), ("1x8", False), ("4x8", True), ("8x1", True)]
)
def test_what_is_added_to_a_product_by_columns_is_its_bias(shape: str, is_left: bool) -> None:
    weights, bias = "tensor<8x8xf32>", f"tensor<{shape}xf32>"
    rows = result = "tensor<8x8xf32>" if shape == "8x1" else "tensor<4x8xf32>"
    text = run(
        f"""
        func.func @main(%x: {rows}, %w: {weights}, %s: {bias}) -> {result} {{
          %1 = IE.FullyConnected(%x, %w) {{activation = "NONE", keep_num_dims = true, is_constant = false}}
            : {rows}, {weights} -> {result}
          %2 = IE.Add(%1, %s) : {result}, {bias} -> {result}
          %3 = IE.ReLU(%2) : {result} -> {result}
          func.return %3 : {result}
        }}
        """,
        "fuse-layers",
        list(library_layers().values()),
    )
    assert ("IE.Add" in text, "IE.ReLU" in text) == (is_left, is_left)


def test_a_layer_with_a_bias_gets_no_other() -> None:
    text = run(
        f"""
        func.func @main(%x: {IMAGE}, %w: tensor<1x1x1x8xf32>, %s: tensor<8xf32>) -> {IMAGE} {{
          %1 = IE.DepthwiseConvolution(%x, %w, %s) {{{WINDOWS}, has_bias = true}}
            : {IMAGE}, tensor<1x1x1x8xf32>, tensor<8xf32> -> {IMAGE}
          %2 = IE.Add(%1, %s) : {IMAGE}, tensor<8xf32> -> {IMAGE}
          func.return %2 : {IMAGE}
        }}
        """,
        "fuse-layers",
        list(library_layers().values()),
    )
    assert "IE.Add" in text
