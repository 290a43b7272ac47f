"""How the shape of a custom op's output is found, where the model leaves it open; whether it fits the model."""

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
    """A kernel finds the shape in a run; it has no largest value but what the user says."""

    OWN = "own"
    """The layer's, which writes it beside its result."""
    SEPARATE = "separate"
    """One that runs before it, for that alone."""
    LIBRARY = "library"
    """None: the library of a CPU layer says it, before a run begins with what is known by then."""


ShapeRule = OutputShape | ByKernel


def find_shape_rule(op: Op, layer: CustomLayer, output: int) -> ShapeRule | None:
    """The rule of an output of dynamic shape; None where nothing says it.

    A layer that says nothing, and whose op has an input of just the same pattern, is taken to keep that shape.
    """
    if layer.type is LayerType.CPP:
        return ByKernel.LIBRARY
    if ShapeArgument(True, output) in layer.kernel.arguments:
        return ByKernel.OWN
    if layer.shape_kernel is not None:
        return ByKernel.SEPARATE
    return declared_shape(layer, output) or alike_input(op, output)


def shapes_refusal(op: Op, layer: CustomLayer) -> str:
    """Why a layer cannot run on an op's tensors of dynamic shape; "" where it can, or there are none."""
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    is_static = all(tensor.type.layout.is_static for tensor in tensors)
    if is_static or layer.type is LayerType.CPP:  # whose library is asked, and says what is wrong
        return ""
    if any(file.sha256 and file.sizes is None for file in layer.sources):
        return "its code is for fixed shapes: compile the layer with --shape_bounds, or bring its source"
    for index, tensor in enumerate(op.outputs):
        if not tensor.type.layout.is_static and find_shape_rule(op, layer, index) is None:
            return (
                f"output {index} is {tensor.type}, and its layer does not say how the shape is found: give the "
                "description (.json) output_shapes, or let the kernel write it"
            )
    return ""


def declared_shape(layer: CustomLayer, output: int) -> OutputShape | None:
    """What the layer's description says of an output; where a kernel finds the shape, that is its bound."""
    shapes = layer.output_shapes or ()
    return shapes[output] if output < len(shapes) else None


def alike_input(op: Op, output: int) -> SameShape | None:
    """The first input that the model gives the shape of the output, unknown dimensions included."""
    pattern = op.outputs[output].type.shape
    for index, tensor in enumerate(op.inputs):
        if tensor is not None and tensor.type.shape == pattern:
            return SameShape(index)
    return None


def is_guessed(op: Op, layer: CustomLayer, output: int) -> bool:
    """Whether the rule is only what the model looks like."""
    if op.outputs[output].type.layout.is_static or layer.shape_kernel is not None:
        return False
    by_kernel = ShapeArgument(True, output) in layer.kernel.arguments
    return not by_kernel and declared_shape(layer, output) is None


def shapes_misfit(op: Op, layer: CustomLayer) -> str:
    """Why what a layer says of its outputs' shapes does not fit the op; "" where it does.

    No bound helps there, so this goes before what bounds are missing.
    """
    is_open = [not tensor.type.layout.is_static for tensor in op.outputs]
    for index, tensor in enumerate(op.outputs):
        if not is_open[index] and ShapeArgument(True, index) in layer.kernel.arguments:
            return (
                f"its layer's kernel writes the shape of output {index}, and the model fixes it: {tensor.type}; "
                "convert the model with an unknown dimension there"
            )
    if not any(is_open) or layer.output_shapes is None:
        return ""
    if len(layer.output_shapes) > len(op.outputs):
        outputs = f"{len(op.outputs)} output{'s' if len(op.outputs) > 1 else ''}"
        return f"its layer has {len(layer.output_shapes)} output_shapes, the op {outputs}"
    for index in range(len(op.outputs)):
        rule = declared_shape(layer, index)
        reason = _misfit(op, rule, index) if rule is not None and is_open[index] else ""
        if reason:
            return f"its layer's output_shapes give output {index} {reason}"
    return ""


def _misfit(op: Op, rule: OutputShape, index: int) -> str:
    try:
        sizes = output_sizes(rule, [_sizes(i, tensor) for i, tensor in enumerate(op.inputs)])
    except LiteRtError as error:
        return f"no shape: {error.what}"
    pattern = op.outputs[index].type.shape
    if len(sizes) != len(pattern):
        return f"{len(sizes)} dimensions, the model gives it {len(pattern)}"
    for dimension, (size, fixed) in enumerate(zip(sizes, pattern, strict=True)):
        if isinstance(size, int) and fixed >= 0 and size != fixed:
            return f"the size {size} in dimension {dimension}, the model gives it {fixed}"
    return ""


def _sizes(index: int, tensor: Tensor | None) -> Sequence[Size] | None:
    """What the model says of an input's shape, and what a run will."""
    if tensor is None:
        return None
    return [Dimension(index, d) if n < 0 else n for d, n in enumerate(tensor.type.shape)]
