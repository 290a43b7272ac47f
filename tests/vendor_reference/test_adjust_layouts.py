"""Tests the pass that gives layers the layouts they require, with IR texts before and after it."""

from __future__ import annotations

from tests.vendor_reference.ir_texts import normal, run

PLANAR = """
#NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
func.func private @Planar(tensor<1x2x3x4xf32{0}>, tensor<4xf32>) -> tensor<1x2x3x4xf32{0}>
    attributes {{IE.input_layouts = [#NCHW, unit], IE.output_layouts = [#NCHW]}}
"""


def test_a_layer_gets_the_layouts_that_it_asks_for() -> None:
    before = (
        PLANAR.format("")
        + """
      func.func @main(%x: tensor<1x2x3x4xf32>, %w: tensor<4xf32>) -> tensor<1x2x3x4xf32> {
        %a = func.call @Planar(%x, %w) : (tensor<1x2x3x4xf32>, tensor<4xf32>) -> tensor<1x2x3x4xf32>
        %b = func.call @Planar(%x, %w) : (tensor<1x2x3x4xf32>, tensor<4xf32>) -> tensor<1x2x3x4xf32>
        func.return %b : tensor<1x2x3x4xf32>
      }
    """
    )
    planar = "tensor<1x2x3x4xf32, #NCHW>"
    after = (
        PLANAR.format(", #NCHW")
        + f"""
      func.func @main(%x: tensor<1x2x3x4xf32>, %w: tensor<4xf32>) -> tensor<1x2x3x4xf32> {{
        %0 = IE.Reorder(%x) : tensor<1x2x3x4xf32> -> {planar}
        %a = func.call @Planar(%0, %w) : ({planar}, tensor<4xf32>) -> {planar}
        %1 = IE.Reorder(%a) : {planar} -> tensor<1x2x3x4xf32>
        %b = func.call @Planar(%0, %w) : ({planar}, tensor<4xf32>) -> {planar}
        %2 = IE.Reorder(%b) : {planar} -> tensor<1x2x3x4xf32>
        func.return %2 : tensor<1x2x3x4xf32>
      }}
    """
    )
    assert run(before, "adjust-layouts") == normal(after)
    assert run(after, "adjust-layouts") == normal(after)


def test_the_binary_layer_of_the_seed_gets_its_layouts() -> None:
    """Checks a layer with N, C, H, W tensors that requires layouts with the channels innermost."""
    before = """
      #NHWC = affine_map<(n, c, h, w) -> (n, h, w, c)>
      #OYXI = affine_map<(o, i, y, x) -> (o, y, x, i)>
      func.func @main(%input: tensor<1x16x9x9xf16>, %weights: tensor<32x16x3x3xf16>)
          -> tensor<1x32x9x9xf16> {
        %bin_code = IE.Constant tensor<10240xui8> = dense_resource<code>
        %output = IE.CustomBinaryLayer VPUIP.OCL from %bin_code
            (%input : tensor<1x16x9x9xf16>, %weights : tensor<32x16x3x3xf16>)
            -> tensor<1x32x9x9xf16>
            {input_layouts = [#NHWC, #OYXI], output_layouts = [#NHWC], VPUIP.max_num_shaves = 8}
        func.return %output : tensor<1x32x9x9xf16>
      }
    """
    after = run(before, "adjust-layouts")
    assert "(%0 : tensor<1x16x9x9xf16, #NHWC>, %1 : tensor<32x16x3x3xf16, #NHWC>)" in after
    assert "IE.Reorder(%output) : tensor<1x32x9x9xf16, #NHWC> -> tensor<1x32x9x9xf16>" in after


def test_an_op_that_takes_any_layout_takes_one_for_all() -> None:
    before = """
      #NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
      func.func @main(%x: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf16, #NCHW> {
        %0 = IE.Reorder(%x) : tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32, #NCHW>
        %y = IE.Convert(%0) : tensor<1x2x3x4xf32, #NCHW> -> tensor<1x2x3x4xf16, #NCHW>
        func.return %y : tensor<1x2x3x4xf16, #NCHW>
      }
    """
    assert run(before, "adjust-layouts") == normal(before)
