"""The texts of the documents that the levels come from, stage by stage; `docs/levels.md` has what was mended.

The first stages of dynamic shapes are in `test_shape_passes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, traits_def

from tests.vendor_reference.ir_texts import normal, run
from tests.vendor_reference.test_shape_passes import BOUNDED
from vendor_reference.compiler.ir.types import IrType
from vendor_reference.compiler.levels.layer import FindsShape, LayerOp, LayoutAgnostic
from vendor_reference.custom_layers.kernel_spec import KernelSpec, TensorArgument

NAMES = """
#NHWC = affine_map<(n, c, h, w) -> (n, h, w, c)>
#OYXI = affine_map<(o, i, y, x) -> (o, y, x, i)>
"""

BINARY_LAYER = {
    "IE": NAMES
    + """
func.func @main(%input : tensor<1x16x100x100xf16>, %weights : tensor<32x16x3x3xf16>)
    -> tensor<1x32x100x100xf16> {
  %bin_code = IE.Constant tensor<10240xui8> = dense_resource<bin_code>

  %output = IE.CustomBinaryLayer VPUIP.OCL from %bin_code
      (%input : tensor<1x16x100x100xf16>, %weights : tensor<32x16x3x3xf16>)
      -> tensor<1x32x100x100xf16>
      {
          input_layouts = [#NHWC, #OYXI],
          output_layouts = [#NHWC],
          VPUIP.max_num_shaves = 8
      }

  return %output : tensor<1x32x100x100xf16>
}
""",
    "adjust-layouts": NAMES
    + """
func.func @main(%input : tensor<1x16x100x100xf16>, %weights : tensor<32x16x3x3xf16>)
    -> tensor<1x32x100x100xf16> {
  %bin_code = IE.Constant tensor<10240xui8> = dense_resource<bin_code>

  %0 = IE.Reorder(%input) : tensor<1x16x100x100xf16> -> tensor<1x16x100x100xf16, #NHWC>
  %1 = IE.Reorder(%weights) : tensor<32x16x3x3xf16> -> tensor<32x16x3x3xf16, #OYXI>
  %output = IE.CustomBinaryLayer VPUIP.OCL from %bin_code
      (%0 : tensor<1x16x100x100xf16, #NHWC>, %1 : tensor<32x16x3x3xf16, #OYXI>)
      -> tensor<1x32x100x100xf16, #NHWC>
      {
          input_layouts = [#NHWC, #OYXI],
          output_layouts = [#NHWC],
          VPUIP.max_num_shaves = 8
      }
  %2 = IE.Reorder(%output) : tensor<1x32x100x100xf16, #NHWC> -> tensor<1x32x100x100xf16>

  return %2 : tensor<1x32x100x100xf16>
}
""",
    "lower-ie-to-iert": NAMES
    + """
func.func @main(%input : memref<1x16x100x100xf16>, %weights : memref<32x16x3x3xf16>,
                %0 : memref<1x32x100x100xf16>) {
  %bin_code = IERT.Constant memref<10240xui8> = dense_resource<bin_code>

  %1 = memref.alloc() : memref<1x16x100x100xf16, #NHWC>
  IERT.Reorder(%input, %1)

  %2 = memref.alloc() : memref<32x16x3x3xf16, #OYXI>
  IERT.Reorder(%weights, %2)

  %output = memref.alloc() : memref<1x32x100x100xf16, #NHWC>
  IERT.CustomBinaryLayer VPUIP.OCL from %bin_code
      (%1, %2, %output)
      {
          VPUIP.max_num_shaves = 8
      }
  memref.dealloc %1 : memref<1x16x100x100xf16, #NHWC>
  memref.dealloc %2 : memref<32x16x3x3xf16, #OYXI>

  IERT.Reorder(%output, %0)
  memref.dealloc %output : memref<1x32x100x100xf16, #NHWC>
  return
}
""",
}
"""The document's own tensors are N, C, H, W; what each pass leaves."""

TASKS = [
    "%1 = VPUIP.DeclareBuffer @CMX[640000] : memref<1x16x100x100xf16, #NHWC, @CMX>",
    "VPUIP.Command @Reorder (%input) -> (%1)",
    "%2 = VPUIP.DeclareBuffer @CMX[960000] : memref<32x16x3x3xf16, #NHWC, @CMX>",
    "%output = VPUIP.DeclareBuffer @CMX[0] : memref<1x32x100x100xf16, #NHWC, @CMX>",
    "VPUIP.OCL from %bin_code (%1, %2) -> (%output) {num_shaves = 8 : i64}",
]
"""Of the last stage: tasks, and buffers that have their places."""


def test_a_binary_layer_goes_down_the_levels_as_in_the_document() -> None:
    stages = list(BINARY_LAYER)
    for before, after in pairwise(stages):
        assert run(BINARY_LAYER[before], after) == normal(BINARY_LAYER[after])


def test_layouts_cost_no_more_than_the_document_s_reorders() -> None:
    before = BINARY_LAYER["adjust-layouts"]
    assert run(before, "optimize-reorders") == normal(before)


def test_a_binary_layer_becomes_a_task_of_its_type() -> None:
    passes = "lower-iert-to-vpuip,assign-memory-spaces,plan-memory"
    text = run(BINARY_LAYER["lower-ie-to-iert"], passes)
    for line in TASKS:
        assert f"    {line}" in text
    native = run(BINARY_LAYER["lower-ie-to-iert"].replace("VPUIP.OCL", "VPUIP.CPP"), passes)
    assert "VPUIP.CPP from %bin_code (%1, %2) -> (%output)" in native


class _Layer(LayerOp):
    """A layer of the document, which has no kernel: one that does nothing stands for it."""

    @classmethod
    def kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        return KernelSpec(cls.name, (TensorArgument(False, 0), TensorArgument(True, 0)))

    dynamic_kernel_spec = kernel_spec


@irdl_op_definition
class Layer1(_Layer):
    name = "IE.Layer1"
    traits = traits_def(FindsShape())


@irdl_op_definition
class SimpleLayer(_Layer):
    name = "IE.SimpleLayer"
    traits = traits_def(LayoutAgnostic())


@irdl_op_definition
class Custom(_Layer):
    name = "IE.Custom"


LAYERS = (Layer1, SimpleLayer, Custom)

ON_BUFFERS = """
func.func private @calc_custom_shape(memref<4xui32>, memref<2xui32>)

func.func @main(%input: memref<100x3x300x300xf16>, %temp2: memref<100x1000xf16>, %temp2_shape: memref<2xui32>)
    attributes {IE.input_patterns = [array<i64: -1, 3, -1, -1>], IE.output_patterns = [array<i64: -1, -1>]} {
  // The memory for this Shape Value is allocated by caller.
  %input_shape = IERT.ActualShapeOf %input : memref<100x3x300x300xf16> -> memref<4xui32>

  %temp0 = memref.alloc() : memref<100x16x200x200xf16>
  %temp0_shape = memref.alloc() : memref<4xui32>
  IERT.Layer1(%input, %temp0)[%input_shape, %temp0_shape]

  %temp1 = memref.alloc() : memref<100x16x200x200xf16>
  IERT.SimpleLayer(%temp0, %temp1)[%temp0_shape]
  memref.dealloc %temp0 : memref<100x16x200x200xf16>

  func.call @calc_custom_shape(%temp0_shape, %temp2_shape) : (memref<4xui32>, memref<2xui32>) -> ()

  // Custom Operation will write directly to the output.
  IERT.Custom(%temp1, %temp2)[%temp0_shape, %temp2_shape]
  memref.dealloc %temp0_shape : memref<4xui32>
  memref.dealloc %temp1 : memref<100x16x200x200xf16>
  return
}
"""


def test_shapes_become_buffers_as_in_the_document() -> None:
    assert run(BOUNDED, "lower-ie-to-iert", LAYERS) == normal(ON_BUFFERS, LAYERS)


def test_several_results_are_named_as_in_the_document() -> None:
    """As one name with numbers, which is printed as several names."""
    joined = BOUNDED.replace("%temp0, %temp0_shape =", "%temp0:2 =")
    joined = joined.replace("(%temp0)", "(%temp0#0)").replace("[%temp0_shape]", "[%temp0#1]")
    joined = joined.replace("@calc_custom_shape(%temp0_shape)", "@calc_custom_shape(%temp0#1)")
    assert "%temp0_shape" not in joined
    expected = normal(BOUNDED, LAYERS).replace("%temp0_shape", "%temp0_1")
    assert normal(joined, LAYERS) == expected
