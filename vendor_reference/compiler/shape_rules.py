"""Finds rules for those output shapes of a custom op that the model leaves open, and checks these rules."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from litert.core.errors import LiteRtError
from litert.core.output_shape import OutputShape, SameShape, output_sizes
from litert.core.sizes import Dimension, Size
from litert.model.graph import Op, Tensor
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.custom_layers.kernel_spec import ShapeArgument


class ByKernel(Enum):
    """Rule for a shape that a kernel or a library computes; only the user can give the largest shape."""

    OWN = "own"
    """The layer's own kernel writes the shape in addition to its result."""
    SEPARATE = "separate"
    """A separate kernel computes the shape before the layer's kernel runs."""
    LIBRARY = "library"
    """No kernel.

    The library of a CPU layer computes the shape before a run, from the shapes that are known then.
    """


ShapeRule = OutputShape | ByKernel


def find_shape_rule(op: Op, layer: CustomLayer, output: int) -> ShapeRule | None:
    """Returns the rule for the shape of an output of dynamic shape; None if there is no rule.

    If nothing else determines the shape of the output, it is the shape of the first input whose shape in the model
    is the same, including unknown dimensions.
    """
    if layer.type is LayerType.CPP:
        return ByKernel.LIBRARY
    if ShapeArgument(True, output) in layer.kernel.arguments:
        return ByKernel.OWN
    if layer.shape_kernel is not None:
        return ByKernel.SEPARATE
    return declared_shape(layer, output) or alike_input(op, output)


def shapes_refusal(op: Op, layer: CustomLayer) -> str:
    """Returns why a layer cannot run on an op's tensors of dynamic shape.

    Returns "" if it can, or if all shapes are fixed.
    """
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    is_static = all(tensor.type.layout.is_static for tensor in tensors)
    if is_static or layer.type is LayerType.CPP:  # the library is asked, and reports the problem
        return ""
    if any(file.sha256 and file.sizes is None for file in layer.sources):
        return (
            "the layer's code is for fixed shapes: compile the layer with --shape_bounds, or give its "
            "source"
        )
    for index, tensor in enumerate(op.outputs):
        if not tensor.type.layout.is_static and find_shape_rule(op, layer, index) is None:
            return (
                f"output {index} is {tensor.type}, and the layer does not say how the shape is found: add "
                "output_shapes to the description (.json), or let the kernel write the shape"
            )
    return ""


def declared_shape(layer: CustomLayer, output: int) -> OutputShape | None:
    """Returns the shape that the layer's description gives for an output.

    The result is only a bound if a kernel computes the shape.
    """
    shapes = layer.output_shapes or ()
    return shapes[output] if output < len(shapes) else None


def alike_input(op: Op, output: int) -> SameShape | None:
    """Returns the first input whose shape in the model equals an output's shape, including unknown dimensions."""
    pattern = op.outputs[output].type.shape
    for index, tensor in enumerate(op.inputs):
        if tensor is not None and tensor.type.shape == pattern:
            return SameShape(index)
    return None


def is_guessed(op: Op, layer: CustomLayer, output: int) -> bool:
    """Returns whether the shape of an output is only assumed to be the shape of an input."""
    if op.outputs[output].type.layout.is_static or layer.shape_kernel is not None:
        return False
    by_kernel = ShapeArgument(True, output) in layer.kernel.arguments
    return not by_kernel and declared_shape(layer, output) is None


def shapes_misfit(op: Op, layer: CustomLayer) -> str:
    """Returns why a layer's rules for its outputs' shapes do not fit the op; "" if they fit.

    A bound does not help if the rules do not fit, so this check comes before the check for missing bounds.
    """
    is_open = [not tensor.type.layout.is_static for tensor in op.outputs]
    for index, tensor in enumerate(op.outputs):
        if not is_open[index] and ShapeArgument(True, index) in layer.kernel.arguments:
            return (
                f"the layer's kernel writes the shape of output {index}, but the output has the fixed shape "
                f"{tensor.type} in the model; convert the model with an unknown dimension in this shape"
            )
    if not any(is_open) or layer.output_shapes is None:
        return ""
    if len(layer.output_shapes) > len(op.outputs):
        outputs = f"{len(op.outputs)} output{'s' if len(op.outputs) > 1 else ''}"
        return f"the layer has {len(layer.output_shapes)} output_shapes, but the op has {outputs}"
    for index in range(len(op.outputs)):
        rule = declared_shape(layer, index)
        reason = _misfit(op, rule, index) if rule is not None and is_open[index] else ""
        if reason:
            return f"the layer's output_shapes give output {index} {reason}"
    return ""


def _misfit(op: Op, rule: OutputShape, index: int) -> str:
    try:
        sizes = output_sizes(rule, [_sizes(i, tensor) for i, tensor in enumerate(op.inputs)])
    except LiteRtError as error:
        return f"no shape: {error.what}"
    pattern = op.outputs[index].type.shape
    if len(sizes) != len(pattern):
        return f"{len(sizes)} dimensions, but the model declares {len(pattern)}"
    for dimension, (size, fixed) in enumerate(zip(sizes, pattern, strict=True)):
        if isinstance(size, int) and fixed >= 0 and size != fixed:
            return f"the size {size} in dimension {dimension}, but the model declares {fixed}"
    return ""


def _sizes(index: int, tensor: Tensor | None) -> Sequence[Size] | None:
    """Returns an input's sizes from the model, and names for the sizes that are known only at run time."""
    if tensor is None:
        return None
    return [Dimension(index, d) if n < 0 else n for d, n in enumerate(tensor.type.shape)]
