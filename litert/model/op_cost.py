"""Computes the number of an op's arithmetic operations and its memory traffic from its shapes, types and options.

The counts agree with TFLite's converter (`GetArithmeticCount` in TensorFlow's `compiler/mlir/lite/ir/tfl_ops.cc`;
examples are in `lite/tests/get-arithmetic-count.mlir`). The converter adds up all arithmetic, and counts a
multiply-accumulate as two operations. The module `op_cost` counts multiply-accumulates (in convolutions, matrix
products and similar ops) and other operations separately. Fused activations and data movement count as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod

from litert.model.builtin_options import get_builtin_option
from litert.model.graph import Op, Tensor


@dataclass(frozen=True, slots=True)
class OpCost:
    """The cost of an op in one run; a number is None if it is unknown.

    Attributes:
      macs: multiply-accumulates.
      operations: Number of all other arithmetic operations; for example, an addition of two tensors has one for
        each element.
      bytes: Memory traffic in bytes, if the op reads each input and constant once, and writes each output once.
    """

    macs: int | None
    operations: int | None
    bytes: int | None

    @property
    def arithmetic(self) -> int | None:
        """Total number of arithmetic operations; a multiply-accumulate counts as two."""
        if self.macs is None or self.operations is None:
            return None
        return 2 * self.macs + self.operations

    def __add__(self, other: OpCost) -> OpCost:
        return OpCost(
            _sum(self.macs, other.macs),
            _sum(self.operations, other.operations),
            _sum(self.bytes, other.bytes),
        )


@dataclass(frozen=True, slots=True)
class KnownCost:
    """The total cost of several ops; unknown costs are not included.

    Attributes:
      macs, operations, bytes: Sums of the numbers with the same names in `OpCost`.
      num_unknown: Number of ops for which the arithmetic or the memory traffic is unknown.
    """

    macs: int
    operations: int
    bytes: int
    num_unknown: int

    @classmethod
    def of(cls, costs: Iterable[OpCost]) -> KnownCost:
        """Adds up the costs of several ops."""
        macs = operations = size = num_unknown = 0
        for cost in costs:
            macs += cost.macs or 0
            operations += cost.operations or 0
            size += cost.bytes or 0
            num_unknown += cost.arithmetic is None or cost.bytes is None
        return cls(macs, operations, size, num_unknown)

    @property
    def arithmetic(self) -> int:
        """Total number of known arithmetic operations; a multiply-accumulate counts as two."""
        return 2 * self.macs + self.operations


NO_COST = OpCost(0, 0, 0)
UNKNOWN_COST = OpCost(None, None, None)


def find_cost(op: Op) -> OpCost:
    """Returns the cost of an op; parts that the graph does not determine are None.

    The arithmetic is unknown for custom ops, for builtin ops without a formula in this module, and for shapes that
    are known only at run time. The memory traffic is unknown if the size of a tensor is unknown. An op that calls
    subgraphs has no cost of its own, because the ops in these subgraphs have their costs.
    """
    if op.name in _CALLS:
        return NO_COST
    macs = operations = traffic = None
    # A damaged op may lack inputs, or have dimensions of 0.
    with suppress(_UnknownError, IndexError, ZeroDivisionError):
        if not op.is_custom and op.name in _ARITHMETIC:
            macs, operations = _ARITHMETIC[op.name](op)
    with suppress(_UnknownError):
        traffic = _count_bytes(op)
    return OpCost(macs, operations, traffic)


_Arithmetic = tuple[int, int]
"""Number of multiply-accumulates, and number of all other arithmetic operations."""


class _UnknownError(Exception):
    """A size is known only at run time, or the file omits the size."""


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _size(tensor: Tensor) -> int:
    """Returns the number of a tensor's elements."""
    shape = tensor.type.shape
    if any(dimension < 0 for dimension in shape):
        raise _UnknownError
    return prod(shape)


def _dimension(tensor: Tensor, axis: int) -> int:
    size = tensor.type.shape[axis]
    if size < 0:
        raise _UnknownError
    return size


def _input(op: Op, index: int) -> Tensor:
    tensor = op.inputs[index]
    if tensor is None:
        raise _UnknownError
    return tensor


def _bias(op: Op, index: int) -> int:
    """Counts an addition for each output element if the op has a bias."""
    has_bias = len(op.inputs) > index and op.inputs[index] is not None
    return _size(op.outputs[0]) if has_bias else 0


def _weighted(op: Op) -> _Arithmetic:
    """Counts the arithmetic of an op that uses all weights once for each output position."""
    output = op.outputs[0]
    positions = _size(output) // _dimension(output, -1)
    return positions * _size(_input(op, 1)), _bias(op, 2)


def _transposed(op: Op) -> _Arithmetic:
    """Counts the arithmetic of an op that uses all weights once for each position of input 2."""
    data = _input(op, 2)
    positions = _size(data) // _dimension(data, -1)
    return positions * _size(_input(op, 1)), _bias(op, 3)


def _matrix_product(op: Op) -> _Arithmetic:
    axis = -2 if get_builtin_option(op, "adj_x") else -1
    return _size(op.outputs[0]) * _dimension(_input(op, 0), axis), 0


def _recurrent(*weights: int) -> Callable[[Op], _Arithmetic]:
    """Counts the arithmetic of an op that uses the weights, the inputs `weights`, once for each input row."""

    def count(op: Op) -> _Arithmetic:
        data = _input(op, 0)
        rows = _size(data) // _dimension(data, -1)
        given = [op.inputs[index] for index in weights if index < len(op.inputs)]
        return rows * sum(_size(matrix) for matrix in given if matrix is not None), 0

    return count


def _pool(op: Op) -> _Arithmetic:
    window = get_builtin_option(op, "filter_height") * get_builtin_option(op, "filter_width")
    return 0, _size(op.outputs[0]) * window


def _each_output(operations: int) -> Callable[[Op], _Arithmetic]:
    return lambda op: (0, operations * _size(op.outputs[0]))


def _each_input(op: Op) -> _Arithmetic:
    return 0, _size(_input(op, 0))


def _many_added(op: Op) -> _Arithmetic:
    return 0, (len(op.inputs) - 1) * _size(op.outputs[0])


def _nothing(op: Op) -> _Arithmetic:
    return 0, 0


_CALLS = frozenset({"CALL", "CALL_ONCE", "IF", "STABLEHLO_CASE", "STABLEHLO_WHILE", "WHILE"})
_EXPONENTIAL = 64
"""An exponential or a similar function counts as this number of operations, as in TFLite's converter."""

_NAMES: Mapping[Callable[[Op], _Arithmetic], str] = {
    _weighted: "CONV_2D CONV_3D DEPTHWISE_CONV_2D FULLY_CONNECTED",
    _transposed: "CONV_3D_TRANSPOSE TRANSPOSE_CONV",
    _matrix_product: "BATCH_MATMUL",
    _recurrent(1, 2): "RNN SVDF UNIDIRECTIONAL_SEQUENCE_RNN",
    _recurrent(*range(1, 9), 16): "LSTM UNIDIRECTIONAL_SEQUENCE_LSTM",
    _pool: "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D",
    _many_added: "ADD_N",
    _each_input: """ARG_MAX ARG_MIN CUMSUM MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM
        TOPK_V2""",
    _each_output(1): """ABS ADD CAST CEIL DEQUANTIZE DIV EQUAL FAKE_QUANT FLOOR FLOOR_DIV FLOOR_MOD GREATER
        GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL LOGICAL_AND LOGICAL_NOT LOGICAL_OR MAXIMUM MINIMUM MUL
        NEG NOT_EQUAL PRELU QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SELECT SELECT_V2 SIGN SQRT
        SQUARE SUB""",
    _each_output(2): "SQUARED_DIFFERENCE",
    _each_output(3): "L2_NORMALIZATION",
    _each_output(7): "RESIZE_BILINEAR",  # four products, and three sums of them
    _each_output(_EXPONENTIAL): "ATAN2 COS ELU EXP GELU LOG LOG_SOFTMAX LOGISTIC POW SIN SOFTMAX "
    "TANH",
    _nothing: """BATCH_TO_SPACE_ND BROADCAST_ARGS BROADCAST_TO CONCATENATION DENSIFY DEPTH_TO_SPACE
        DYNAMIC_UPDATE_SLICE EMBEDDING_LOOKUP EXPAND_DIMS FILL GATHER GATHER_ND MIRROR_PAD ONE_HOT PACK PAD PADV2
        RANGE RANK RESHAPE RESIZE_NEAREST_NEIGHBOR REVERSE_V2 SCATTER_ND SHAPE SLICE SPACE_TO_BATCH_ND
        SPACE_TO_DEPTH SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE UNPACK ZEROS_LIKE""",
}  # fmt: skip

_ARITHMETIC = {name: count for count, names in _NAMES.items() for name in names.split()}

_READ_IN_PART = {
    "EMBEDDING_LOOKUP": 1, "GATHER": 0, "GATHER_ND": 0, "SLICE": 0, "STRIDED_SLICE": 0,
}  # fmt: skip
"""Ops that read only as many bytes from one input as they write, with the index of this input."""


def _count_bytes(op: Op) -> int:
    written = sum(_bytes(tensor) for tensor in op.outputs)
    return written + sum(_bytes_read(op, written))


def _bytes_read(op: Op, written: int) -> Iterator[int]:
    partial = _READ_IN_PART.get(op.name)
    for tensor in dict.fromkeys(tensor for tensor in op.inputs if tensor is not None):
        is_partial = partial is not None and op.inputs.index(tensor) == partial
        yield min(written, _bytes(tensor)) if is_partial else _bytes(tensor)


def _bytes(tensor: Tensor) -> int:
    """Returns a tensor's size in memory, in bytes; a constant has its size in the file, where it may be sparse."""
    if tensor.is_constant:
        return len(tensor.data)
    if not tensor.element_type.bits or not tensor.type.layout.is_static:
        raise _UnknownError
    return tensor.type.size_bytes
