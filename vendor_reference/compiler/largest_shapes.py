"""Finds the largest shape of each tensor of a subgraph.

Either the user gives this shape, or it is derived from the inputs of the op that computes the tensor.

For ops on the NPU, bounds are derived from the rules of their layers. For ops on the CPU, bounds are derived if
the op broadcasts, slides a window, or keeps the batch size. For outputs of other ops, the user can give bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from litert.core.errors import LiteRtError
from litert.core.output_shape import OutputShape, output_sizes
from litert.core.sizes import Dimension, find_largest
from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Subgraph, Tensor
from vendor_reference.compiler.cpu_library import CpuLayerShapes
from vendor_reference.compiler.library.dynamic_kernel import largest_results
from vendor_reference.compiler.library.library_op import library_ops
from vendor_reference.compiler.shape_rules import (
    ByKernel,
    alike_input,
    declared_shape,
    find_shape_rule,
)
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.executable.executable import format_shape

Shape = tuple[int, ...]


@dataclass(slots=True)
class Bounds:
    """The largest shape of each tensor of a subgraph, or the reason why it is unknown.

    A fixed shape is its own bound.
    """

    shapes: dict[Tensor, Shape] = field(default_factory=dict)
    reasons: dict[Tensor, str] = field(default_factory=dict)


NO_BOUNDS = Bounds()
"""Bounds of a model if the user gives none: tensors of dynamic shape have no bounds."""


def find_bounds(
    subgraph: Subgraph,
    given: Mapping[str, Sequence[int]],
    layers: Mapping[str, CustomLayer],
    cpu_shapes: CpuLayerShapes | None = None,
) -> Bounds:
    """Finds the bounds of a subgraph's tensors.

    The keys of `given` are tensor names; the host has checked the ranks of these bounds. `cpu_shapes` asks the
    libraries of CPU layers for shapes; None if the user gives the bounds of these layers' outputs.
    """
    bounds = Bounds()
    for tensor in subgraph.inputs:
        _find(tensor, given, bounds, "the tensor is an input of the model")
    for op in subgraph.ops:
        for read in op.inputs:
            if read is not None and read.producer is None:
                _find(read, given, bounds, "")
        if all(_find(tensor, given, bounds, "") for tensor in op.outputs):
            continue
        derived = _derive(op, layers.get(op.name), bounds, cpu_shapes)
        for tensor, shape in zip(op.outputs, derived, strict=True):
            reason = shape if isinstance(shape, str) else ""
            if not _find(tensor, given, bounds, reason) and not isinstance(shape, str):
                del bounds.reasons[tensor]
                pattern = tensor.type.shape
                bounds.shapes[tensor] = tuple(
                    d if p < 0 else p for p, d in zip(pattern, shape, strict=True)
                )
    return bounds


def bound_hint(tensor: Tensor) -> str:
    """Returns the hint for messages about a tensor that has no bound."""
    example = format_shape([100 if d < 0 else d for d in tensor.type.shape])
    return f"give a bound with --shape_bounds={tensor.name}:{example}"


def _find(tensor: Tensor, given: Mapping[str, Sequence[int]], bounds: Bounds, reason: str) -> bool:
    """Returns whether a tensor is fixed, or its bound is given."""
    if tensor in bounds.shapes:
        return True
    if tensor.type.layout.is_static:
        bounds.shapes[tensor] = tensor.shape
        return True
    if tensor.name in given and len(given[tensor.name]) == len(tensor.shape):
        bounds.shapes[tensor] = tuple(given[tensor.name])
        return True
    bounds.reasons[tensor] = reason
    return False


def _derive(
    op: Op, layer: CustomLayer | None, bounds: Bounds, cpu_shapes: CpuLayerShapes | None
) -> Sequence[Shape | str]:
    """Returns the largest shape of each output, or the reason why there is none."""
    for given in op.inputs:
        if given is not None and given not in bounds.shapes:
            return [f"{op.name} computes the tensor from '{given.name}', which has no bound"] * len(
                op.outputs
            )
    if layer is not None and layer.type is LayerType.CPP:
        if cpu_shapes is None:
            return [f"the library of {op.name} was not asked for the shape"] * len(op.outputs)
        return cpu_shapes.find(op, layer, bounds.shapes)
    if layer is not None:
        return [_derive_custom(op, layer, index, bounds) for index in range(len(op.outputs))]
    rule = library_ops().get(op.name)
    found = largest_results(rule, op, bounds.shapes) if rule is not None else ""
    if not isinstance(found, str):
        return [
            shape
            if len(shape) == len(tensor.shape)
            else (
                f"{op.name} makes a result of shape {list(shape)}, but the model declares "
                f"{tensor.type}"
            )
            for tensor, shape in zip(op.outputs, found, strict=True)
        ]
    inputs = [bounds.shapes[t] for t in op.inputs if t is not None]
    return [largest_builtin(op, tensor, inputs) for tensor in op.outputs]


def _derive_custom(op: Op, layer: CustomLayer, index: int, bounds: Bounds) -> Shape | str:
    rule = find_shape_rule(op, layer, index)
    if isinstance(rule, ByKernel):
        rule = declared_shape(layer, index) or alike_input(op, index)
        if rule is None:
            return "a kernel finds the tensor's shape, and no formula in output_shapes limits that shape"
    if rule is None:
        return f"the layer of {op.name} does not say how the tensor's shape is found"
    try:
        shape = largest_output(rule, [bounds.shapes[t] if t else None for t in op.inputs])
    except LiteRtError as error:
        return f"the layer of {op.name} cannot compute the tensor's shape: {error.what}"
    rank = len(op.outputs[index].shape)
    if len(shape) != rank:
        return f"the layer of {op.name} gives the tensor {len(shape)} dimensions, but the model declares {rank}"
    return shape


def largest_output(rule: OutputShape, inputs: Sequence[Shape | None]) -> Shape:
    """Returns the largest shape of an output, computed from the largest shapes of the inputs."""
    symbolic = [
        None if shape is None else tuple(Dimension(i, d) for d in range(len(shape)))
        for i, shape in enumerate(inputs)
    ]
    sizes = output_sizes(rule, symbolic)

    def bound(index: int) -> Shape:
        shape = inputs[index]
        assert shape is not None
        return shape

    return tuple(find_largest(size, bound) for size in sizes)


_BROADCAST = """
    ABS ADD ATAN2 CAST CEIL COS DEQUANTIZE DIV ELU EQUAL EXP FAKE_QUANT FLOOR FLOOR_DIV FLOOR_MOD GELU GREATER
    GREATER_EQUAL HARD_SWISH L2_NORMALIZATION LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR
    LOGISTIC LOG_SOFTMAX MAXIMUM MINIMUM MUL NEG NOT_EQUAL POW PRELU QUANTIZE RELU RELU6 RELU_0_TO_1
    RELU_N1_TO_1 ROUND RSQRT SELECT_V2 SIGN SIN SOFTMAX SQRT SQUARE SQUARED_DIFFERENCE SUB TANH ZEROS_LIKE
"""
_WINDOWS = "AVERAGE_POOL_2D CONV_2D DEPTHWISE_CONV_2D L2_POOL_2D MAX_POOL_2D"
_REGROUP = "FULLY_CONNECTED RESHAPE"
_KEEP_BATCH = """
    BATCH_MATMUL DEPTH_TO_SPACE MEAN REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
    SLICE SPACE_TO_DEPTH STRIDED_SLICE SUM
"""
_BROADCASTING, _SLIDING = frozenset(_BROADCAST.split()), frozenset(_WINDOWS.split())
_REGROUPING, _KEEPING = frozenset(_REGROUP.split()), frozenset(_KEEP_BATCH.split())
_SAME_PADDING = 0


def largest_builtin(op: Op, result: Tensor, inputs: Sequence[Shape]) -> Shape | str:
    """Returns the largest shape of a builtin op's result, or the reason why it is unknown.

    The caller then replaces the dimensions that are fixed in the model. `inputs` holds the largest shapes of the
    inputs that are not omitted.
    """
    rank = len(result.shape)
    is_batch_alone = [d for d, size in enumerate(result.type.shape) if size < 0] == [0]
    if op.name in _BROADCASTING:
        padded = [(1,) * (rank - len(shape)) + shape for shape in inputs if len(shape) <= rank]
        return tuple(max(sizes) for sizes in zip(*padded, strict=True))
    if op.name in _SLIDING and rank == 4:
        return _slide_window(op, result, inputs)
    if op.name in _REGROUPING and is_batch_alone:
        each = prod(inputs[1][1:] if op.name == "FULLY_CONNECTED" else result.shape[1:])
        return (prod(inputs[0]) // max(each, 1), *result.shape[1:])
    if op.name in _KEEPING and is_batch_alone:
        return (inputs[0][0], *result.shape[1:])
    return f"no bound can be derived for the result of {op.name}"


def _slide_window(op: Op, result: Tensor, inputs: Sequence[Shape]) -> Shape:
    options = read_builtin_options(op)

    def number(name: str) -> int:
        value = options.get(name)
        return value if isinstance(value, int) and value > 0 else 1

    batch, height, width, _ = inputs[0]
    window = (number("filter_height"), number("filter_width"))
    if len(inputs) > 1:
        window = (inputs[1][1], inputs[1][2])
    sizes = []
    for size, kernel, letter in zip((height, width), window, "hw", strict=True):
        reach = 1 + (kernel - 1) * number(f"dilation_{letter}_factor")
        free = size if options.get("padding") == _SAME_PADDING else size - reach + 1
        sizes.append(max(0, -(-free // number(f"stride_{letter}"))))
    return batch, sizes[0], sizes[1], result.shape[3]
