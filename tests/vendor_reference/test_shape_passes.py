"""Tests dynamic shapes at each IR level; `test_documents_texts.py` tests the stages in the documents."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from tests.vendor_reference.ir_texts import normal, run

KERNEL = 'VPUIP.kernel = {title = "k", arguments = [{input = 0 : i64}, {output = 0 : i64}]}'


def test_formulas_of_a_layer_become_a_function_of_shapes() -> None:
    before = f"""
        func.func private @Up(tensor<?x3xf32>) -> tensor<?x6xf32>
            attributes {{{KERNEL}, IE.output_shapes = [["B*2", "INPUT0_SHAPE[1]*2"]]}}
        func.func @f(%x: tensor<?x3xf32>) -> tensor<?x6xf32>
            attributes {{IE.bounds = [array<i64: 10, 3>]}} {{
          %y = func.call @Up(%x) : (tensor<?x3xf32>) -> tensor<?x6xf32>
          func.return %y : tensor<?x6xf32>
        }}
    """
    after = f"""
        func.func private @shape_of_Up(!shape.shape) -> !shape.shape
            attributes {{IE.formulas = ["B*2", "INPUT0_SHAPE[1]*2"], IE.input_shapes = [unit]}}
        func.func private @Up(tensor<10x3xf32>, !shape.shape, !shape.shape) -> tensor<20x6xf32>
            attributes {{{KERNEL}, IE.output_shapes = [["B*2", "INPUT0_SHAPE[1]*2"]],
                         dynamic_inputs = [0 : i64], dynamic_outputs = [0 : i64]}}
        func.func @f(%x: tensor<10x3xf32>) -> (tensor<20x6xf32>, !shape.shape)
            attributes {{IE.input_patterns = [array<i64: -1, 3>],
                         IE.output_patterns = [array<i64: -1, 6>]}} {{
          %x_shape = IE.ActualShapeOf %x : tensor<10x3xf32> -> !shape.shape
          %y_shape = func.call @shape_of_Up(%x_shape) : (!shape.shape) -> !shape.shape
          %y = func.call @Up(%x, %x_shape, %y_shape)
            : (tensor<10x3xf32>, !shape.shape, !shape.shape) -> tensor<20x6xf32>
          func.return %y, %y_shape : tensor<20x6xf32>, !shape.shape
        }}
    """
    assert run(before, "add-shape-values,bound-shapes") == normal(after)


@pytest.mark.parametrize(
    ("attributes", "bounds", "what"),
    [
        (
            "",
            "[array<i64: 10, 3>]",
            "run time, but output 0 of function 'Up' has no rule to compute this shape",
        ),
        ("IE.output_shapes = [0 : i64],", "[unit]", "the largest shape of argument 0 is unknown"),
        (
            "IE.output_shapes = [0 : i64],",
            "[array<i64: 10>]",
            "the largest shape of argument 0 is 10, which has another rank than type",
        ),
        (
            'IE.output_shapes = ["B"],',
            "[array<i64: 10, 3>]",
            'attribute IE.output_shapes has the entry "B", but each entry must be',
        ),
        ('IE.output_shapes = [["B/0", "3"]],', "[array<i64: 10, 3>]", "divides by zero"),
    ],
)
def test_what_nobody_says_is_an_error(attributes: str, bounds: str, what: str) -> None:
    text = f"""
        func.func private @Up(tensor<?x3xf32>) -> tensor<?x3xf32> attributes {{{attributes}{KERNEL}}}
        func.func @f(%x: tensor<?x3xf32>) -> tensor<?x3xf32> attributes {{IE.bounds = {bounds}}} {{
          %y = func.call @Up(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
          func.return %y : tensor<?x3xf32>
        }}
    """
    with pytest.raises(LiteRtError) as error:
        run(text, "add-shape-values,bound-shapes")
    assert what in error.value.what


def test_shapes_have_their_places_in_ddr_at_the_end() -> None:
    kernel = """VPUIP.task = "OCL", VPUIP.kernel = {title = "k", global_size = ["F", "B"],
        arguments = [{input = 0 : i64}, {shape_of_input = 0 : i64}, {output = 0 : i64}]}"""
    before = f"""
        module attributes {{VPUIP.soc = "EMU8"}} {{
          func.func private @Up(tensor<?x3xf32>) -> tensor<?x6xf32>
              attributes {{{kernel}, IE.output_shapes = [["B*2", "INPUT0_SHAPE[1]*2"]]}}
          func.func private @Keep(tensor<?x6xf32>) -> tensor<?x6xf32>
              attributes {{VPUIP.task = "OCL", {KERNEL}, IE.output_shapes = [0 : i64]}}
          func.func @f(%x: tensor<?x3xf32>) -> tensor<?x6xf32>
              attributes {{IE.bounds = [array<i64: 10, 3>]}} {{
            %t = func.call @Up(%x) : (tensor<?x3xf32>) -> tensor<?x6xf32>
            %y = func.call @Keep(%t) : (tensor<?x6xf32>) -> tensor<?x6xf32>
            func.return %y : tensor<?x6xf32>
          }}
        }}
    """
    passes = "add-shape-values,bound-shapes,lower-ie-to-iert,lower-iert-to-vpuip,plan-memory"
    text = " ".join(run(before, passes).split())
    body = """
        %x_shape = VPUIP.ActualShapeOf %x : memref<10x3xf32> -> memref<2xui32>
        VPUIP.EvaluateShape @shape_of_Up(%x_shape, %t_shape) : memref<2xui32>, memref<2xui32>
        %t = VPUIP.DeclareBuffer @DDR[0] : memref<20x6xf32>
        VPUIP.OCL @Up (%x)[%x_shape] -> (%t)[%t_shape] {
          global_size = array<i64: 6, 20>, num_shaves = 8 : i64 }
        VPUIP.OCL @Keep (%t)[%t_shape] -> (%y) {global_size = array<i64: 120>, num_shaves = 8 : i64}
        func.return
    """
    assert " ".join(body.split()) in text
