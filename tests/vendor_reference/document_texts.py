"""IR texts as printed in the two documents on which the levels are based, and the parts that these omit."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping

BINARY_LAYER = """\
#NHWC = affine_map<(n, c, h, w) -> (n, h, w, c)>
#OYXI = affine_map<(o, i, y, x) -> (o, y, x, i)>

%bin_code = IE.Constant tensor<10240xui8> = dense<...>

%output = IE.CustomBinaryLayer VPUIP.OCL from %bin_code
    (%input : tensor<1x16x100x100xf16>, %weights : tensor<32x16x3x3xf16>)
    -> tensor<1x32x100x100xf16>
    {
        input_layouts = [#NHWC, #OYXI],
        output_layouts = [#NHWC],
        VPUIP.max_num_shaves = 8
    }
"""

BINARY_LAYER_ON_BUFFERS = """\
#NHWC = affine_map<(n, c, h, w) -> (n, h, w, c)>
#OYXI = affine_map<(o, i, y, x) -> (o, y, x, i)>

%bin_code = IERT.Constant memref<10240xui8> = dense<...>

%input_NHWC = alloc : memref<1x16x100x100xf16, #NHWC>
IERT.Reorder(%input, %input_NHWC)
dealloc %input

%output_NHWC = alloc : memref<1x32x100x100xf16, #NHWC>
IERT.CustomBinaryLayer VPUIP.OCL from %bin_code
    (%input_NHWC, %weights_OYXI, %output_NHWC)
    {
        VPUIP.max_num_shaves = 8
    }
dealloc %input_NHWC

%output = alloc : memref<1x32x100x100xf16>
IERT.Reorder(%output_NHWC, %output)
dealloc %output_NHWC
"""

INITIAL = """\
// Input batch, height, width are dynamic; channels are static.
// Output is all dynamic.
// Rank is static.
func @main(%input: tensor<?x3x?x?xf16>) -> tensor<?x?xf16> {
    // This layer has some formula to calculate output shape from input and attributes.
    // The runtime implementation of the layer will calculate the output shape internally.
    %temp0 = IE.Layer1(%input) : tensor<?x3x?x?xf16> -> tensor<?x16x?x?xf16>

    // This is a simple element-wise layer, output shape is equal to input shape.
    %temp1 = IE.SimpleLayer(%temp0) : tensor<?x16x?x?xf16> -> tensor<?x16x?x?xf16>

    // This is a custom layer, it has provided metadata for output shape calaculation,
    // but it must be done separately.
    %temp2 = IE.Custom(%temp1) : tensor<?x16x?x?xf16> -> tensor<?x?xf16>

    return %2
}
"""

WITH_SHAPES = """\
func @main(%input: tensor<?x3x?x?xf16>) -> tensor<?x?xf16>, !shape.type {
    // Extract actual shape for network input
    %input_shape = shape.shape_of %input : tensor<?x3x?x?xf16> -> !shape.shape

    // Layer1 takes the shape of its argument as additional parameter.
    // Layer1 will compute the output shape internally and it returns it as additional result (implicit tuple).
    %temp0:2 = IE.Layer1(%input)[%input_shape] : tensor<?x3x?x?xf16>, !shape.shape -> tensor<?x16x?x?xf16>, !shape.type

    // SimpleLayer takes the shape of its argument as additional parameter.
    // Since for SimpleLayer output shape == input shape, it doesn't add additonal value for it,
    // instead it notifies the Pass to reuse existing Shape Value.
    %temp1 = IE.SimpleLayer(%temp0#0)[%temp0#1] : tensor<?x16x?x?xf16>, !shape.shape -> tensor<?x16x?x?xf16>

    // %temp0#1 (the shape of %temp0 tensor) is used as shape value for %temp1.
    // Custom layer has separate code for output shape calculation, so it is called prior to the Custom Operation.
    %temp2_shape = call @calc_custom_shape(%temp0#1) : !shape.shape -> !shape.shape

    // Custom takes the shape of its argument as additional parameter.
    // Custom takes the shape of its result as additional parameter (since it is calculated separately).
    %temp2 = IE.Custom(%temp1#0)[%temp0#1][%temp2_shape] : tensor<?x16x?x?xf16>, !shape.shape -> tensor<?x?xf16>

    return %temp2, %temp2_shape
}
"""

BOUNDED = """\
func @main(%input: tensor<100x3x300x300xf16>) -> tensor<100x1000xf16>, !shape.type {
    %input_shape = IE.ActualShapeOf %input : tensor<100x3x300x300xf16> -> !shape.shape

    %temp0:2 = IE.Layer1(%input)[%input_shape] : tensor<100x3x300x300xf16>, !shape.shape -> tensor<100x16x200x200xf16>, !shape.type

    %temp1 = IE.SimpleLayer(%temp0#0)[%temp0#1] : tensor<100x16x200x200xf16>, !shape.shape -> tensor<100x16x200x200xf16>

    %temp2_shape = call @calc_custom_shape(%temp0#1) : !shape.shape -> !shape.shape

    %temp2 = IE.Custom(%temp1#0)[%temp0#1][%temp2_shape] : tensor<100x16x200x200xf16>, !shape.shape -> tensor<100x1000xf16>

    return %temp2, %temp2_shape
}
"""

ON_BUFFERS = """\
func @main(%input: memref<100x3x300x300xf16>, %output:memref<100x1000xf16>, %output_shape:memref<2xui32>) {
    // Extract actual shape for network input.
    // The memory for this Shape Value is allocated by caller (InferenceManager).
    %input_shape = IERT.ActualShapeOf %input : memref<100x3x300x300xf16> -> memref<4xui32>

    // Allocate memory for Layer1 result
    %temp0 = alloc : memref<100x16x200x200xf16>

    // Allocate memory for Layer1 result shape
    %temp0_shape = alloc : memref<4xui32>

    // On this step Operation takes both inputs and outputs as arguments, since they are allocated outside.
    IERT.Layer1(%input, %output)[%input_shape, %temp0_shape]

    // Allocate memory for SimpleLayer result.
    %temp1 = alloc : memref<100x16x200x200xf16>

    IE.SimpleLayer(%temp0, %temp1)[%temp0_shape]

    dealloc %temp0

    call @calc_custom_shape(%temp0_shape, %output_shape)

    // Custom Operation will write directly to %output.
    IE.Custom(%temp1, %output)[%temp0_shape, %output_shape]

    dealloc %temp0_shape

    return
}
"""

DECLARED = """
func.func private @calc_custom_shape(!shape.shape) -> !shape.shape
    attributes {IE.bounds = [array<i64: 100, 1000>]}
func.func private @Layer1(tensor<?x3x?x?xf16>) -> tensor<?x16x?x?xf16>
    attributes {IE.output_shapes = [unit], IE.bounds = [array<i64: 100, 16, 200, 200>]}
func.func private @SimpleLayer(tensor<?x16x?x?xf16>) -> tensor<?x16x?x?xf16>
    attributes {IE.output_shapes = [0 : i64]}
func.func private @Custom(tensor<?x16x?x?xf16>) -> tensor<?x?xf16>
    attributes {IE.output_shapes = [@calc_custom_shape]}
"""
"""Functions that state what the document says about its layers in comments, and how large their results can be."""

_DOTS = {"dense<...>": "dense_resource<bin_code>"}
_OPEN = "tensor<?x3x?x?xf16>) -> tensor<?x?xf16>"
_BOUNDS = "attributes {IE.bounds = [array<i64: 100, 3, 300, 300>]} {"
_PATTERNS = """attributes {IE.input_patterns = [array<i64: -1, 3, -1, -1>],
    IE.output_patterns = [array<i64: -1, -1>]} {"""


def mend(text: str, mends: Mapping[str, str]) -> str:
    """Replaces parts of a document's text, each of which must occur exactly once."""
    for there, here in mends.items():
        assert text.count(there) == 1, there
        text = text.replace(there, here)
    return text


MENDED = {
    "BINARY_LAYER": mend(BINARY_LAYER, _DOTS),
    "BINARY_LAYER_ON_BUFFERS": mend(
        BINARY_LAYER_ON_BUFFERS,
        {
            **_DOTS,
            "%bin_code = ": """
func @main(%input: memref<1x16x100x100xf16>, %weights: memref<32x16x3x3xf16>, %output: memref<1x32x100x100xf16>) {
%bin_code = """,
            "dealloc %input\n": """
%weights_OYXI = alloc : memref<32x16x3x3xf16, #OYXI>
IERT.Reorder(%weights, %weights_OYXI)
""",
            "dealloc %input_NHWC\n": "dealloc %input_NHWC\ndealloc %weights_OYXI\n",
            "%output = alloc : memref<1x32x100x100xf16>\n": "",
            "dealloc %output_NHWC\n": "dealloc %output_NHWC\nreturn\n}\n",
        },
    ),
    "INITIAL": mend(
        DECLARED + INITIAL, {f"{_OPEN} {{": f"{_OPEN} {_BOUNDS}", "return %2": "return %temp2"}
    ),
    "WITH_SHAPES": mend(DECLARED + WITH_SHAPES, {", !shape.type {": f", !shape.type {_BOUNDS}"}),
    "BOUNDED": mend(DECLARED + BOUNDED, {", !shape.type {": f", !shape.type {_PATTERNS}"}),
    "ON_BUFFERS": mend(
        DECLARED + ON_BUFFERS,
        {
            "(!shape.shape) -> !shape.shape": "(memref<4xui32>, memref<2xui32>)",
            "memref<2xui32>) {": f"memref<2xui32>) {_PATTERNS}",
            "IERT.Layer1(%input, %output)": "IERT.Layer1(%input, %temp0)",
            "dealloc %temp0_shape\n": "dealloc %temp0_shape\n    dealloc %temp1\n",
        },
    ),
}
"""The documents' texts with the corrections that `docs/levels.md` lists."""

_KERNELS = {
    "Layer1": (
        "[{input = 0 : i64}, {shape_of_input = 0 : i64}, {output = 0 : i64}, {shape_of_output = 0 : i64}]",
        """\
__kernel void Layer1(__global const half* x, __global const uint* in, __global half* y, __global uint* out) {
  const uint n = in[0], size = in[2] * in[3];
  for (uint i = 0; i < n * 16 * size; ++i) {
    const uint b = i / (16 * size), c = i / size % 16, p = i % size;
    vstore_half(vload_half((b * 3 + c % 3) * size + p, x) + c, i, y);
  }
  out[0] = n; out[1] = 16; out[2] = in[2]; out[3] = in[3];
}
""",
    ),
    "SimpleLayer": (
        "[{input = 0 : i64}, {output = 0 : i64}]",
        """\
__kernel void SimpleLayer(__global const half* x, __global half* y) {
  vstore_half(2 * vload_half(get_global_id(0), x), get_global_id(0), y);
}
""",
    ),
    "Custom": (
        "[{input = 0 : i64}, {shape_of_input = 0 : i64}, {output = 0 : i64}, {shape_of_output = 0 : i64}]",
        """\
__kernel void Custom(__global const half* x, __global const uint* in, __global half* y, __global const uint* out) {
  const uint size = in[2] * in[3];
  for (uint i = 0; i < out[0] * out[1]; ++i) {
    float sum = 0;
    for (uint p = 0; p < size; ++p) sum += vload_half(i * size + p, x);
    vstore_half(sum, i, y);
  }
}
""",
    ),
    "calc_custom_shape": (
        "[{shape_of_input = 0 : i64}, {shape_of_output = 0 : i64}]",
        """\
__kernel void calc_custom_shape(__global const uint* in, __global uint* out) {
  out[0] = in[0]; out[1] = in[1];
}
""",
    ),
}
"""For each layer of the document on dynamic shapes: its kernel's arguments and the kernel."""


def escaped(text: str) -> str:
    """Returns a text with its line breaks escaped, as in a quoted string."""
    return text.replace("\n", "\\n")


def _describe(text: str) -> str:
    for layer, (arguments, source) in _KERNELS.items():
        items = "" if layer == "SimpleLayer" else ', global_size = ["1"]'
        place = text.index("{", text.index(f"@{layer}(")) + 1
        kernel = (
            f'VPUIP.kernel = {{title = "{layer}", arguments = {arguments}{items}}}, '
            f'VPUIP.source = "{escaped(source)}", '
        )
        text = text[:place] + kernel + text[place:]
    return text


DESCRIBED = {
    name: _describe(text) for name, text in MENDED.items() if not name.startswith("BINARY")
}
"""The texts on dynamic shapes, with kernels for the layers, which the document does not describe."""
