"""What a layer says of the shapes of its outputs, compared with what the model fixes of them."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.output_shape import OutputShape, output_sizes
from litert.core.sizes import Dimension, Size
from litert.model.graph import Op
from vendor_reference.compiler.shape_rules import declared_shape
from vendor_reference.custom_layers.custom_layer import CustomLayer


def shapes_misfit(op: Op, layer: CustomLayer) -> str:
    """Why a layer's `output_shapes` are none of an op's outputs of dynamic shape; "" where they can be.

    No bound helps there, so this goes before what bounds are missing.
    """
    is_open = [not tensor.type.layout.is_static for tensor in op.outputs]
    if not any(is_open) or layer.output_shapes is None:
        return ""
    if len(layer.output_shapes) > len(op.outputs):
        return f"its layer has {len(layer.output_shapes)} output_shapes, the op {_outputs(op)}"
    for index in range(len(op.outputs)):
        rule = declared_shape(layer, index)
        reason = _misfit(op, rule, index) if rule is not None and is_open[index] else ""
        if reason:
            return f"its layer's output_shapes give output {index} {reason}"
    return ""


def _misfit(op: Op, rule: OutputShape, index: int) -> str:
    try:
        sizes = output_sizes(rule, [_sizes(op, i) for i in range(len(op.inputs))])
    except LiteRtError as error:
        return f"no shape: {error.what}"
    pattern = op.outputs[index].type.shape
    if len(sizes) != len(pattern):
        return f"{len(sizes)} dimensions, the model gives it {len(pattern)}"
    for dimension, (size, fixed) in enumerate(zip(sizes, pattern, strict=True)):
        if isinstance(size, int) and fixed >= 0 and size != fixed:
            return f"the size {size} in dimension {dimension}, the model gives it {fixed}"
    return ""


def _sizes(op: Op, index: int) -> Sequence[Size] | None:
    """What the model says of an input's shape, and what a run will."""
    tensor = op.inputs[index]
    if tensor is None:
        return None
    return [Dimension(index, d) if n < 0 else n for d, n in enumerate(tensor.type.shape)]


def _outputs(op: Op) -> str:
    return f"{len(op.outputs)} output{'s' if len(op.outputs) > 1 else ''}"
