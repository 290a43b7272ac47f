"""The largest shape that a builtin op makes: of ops that broadcast, slide a window, or keep the batch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor

Shape = tuple[int, ...]

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
    """The largest shape of a result, whose fixed dimensions the caller puts in; or why there is none.

    Args:
      op: that makes it.
      result: whose shape the model leaves open.
      inputs: the largest shapes of the inputs that are there.
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
    return f"{op.name} makes it, from which no bound can be derived"


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
