"""Finds the ops of the model that belong to each operator that XNNPACK reports.

XNNPACK reports the names and times of its operators in the order in which they run, but does not report the ops to
which they belong. XNNPACK runs most ops as one operator, and some ops as several operators. XNNPACK merges
activations and paddings into a neighbouring operator, and needs no operator for some ops. Since operators run in
the order of the ops, the kinds of operators determine nearly all matches. If several matches are possible, the
ambiguous ops and operators form one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

_ADDED_BEFORE = frozenset(
    ("Constant Pad", "Convert", "Copy", "Pack Lh", "Slice", "Static Reshape", "Transpose")
)
_ADDED_BEHIND = frozenset(("Clamp", "Copy", "Slice", "Static Reshape", "Transpose"))
"""Operators that XNNPACK may add to any op: padding, activation, and conversion of type or shape."""

_OPS: Mapping[str, Sequence[str]] = {
    "Add": ("ADD",),
    "Argmax Pooling": ("MaxPoolingWithArgmax2D",),
    "Average Pooling": ("AVERAGE_POOL_2D", "MEAN"),
    "Bankers Rounding": ("ROUND",),
    "Batch Matrix Multiply": ("BATCH_MATMUL", "FULLY_CONNECTED"),
    "Ceiling": ("CEIL",),
    "Clamp": ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"),
    "Concatenate": ("CONCATENATION",),
    "Constant Pad": ("PAD", "PADV2"),
    "Convert": ("QUANTIZE", "DEQUANTIZE", "CAST"),
    "Convolution": ("CONV_2D", "DEPTHWISE_CONV_2D"),
    "Copy": ("RESHAPE", "EXPAND_DIMS", "SQUEEZE", "CONCATENATION", "SPLIT", "PACK", "BROADCAST_TO"),
    "Cosine": ("COS",),
    "Deconvolution": ("TRANSPOSE_CONV", "Convolution2DTransposeBias"),
    "Depth To Space": ("DEPTH_TO_SPACE",),
    "Divide": ("DIV",),
    "Dynamic Fully Connected": ("FULLY_CONNECTED", "BATCH_MATMUL", "CONV_2D"),
    "Fully Connected": ("FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"),
    "Global Average Pooling": ("MEAN", "AVERAGE_POOL_2D"),
    "HardSwish": ("HARD_SWISH",),
    "Max Pooling": ("MAX_POOL_2D",),
    "Mean": ("MEAN",),
    "Multiply": ("MUL",),
    "Negate": ("NEG",),
    "PReLU": ("PRELU",),
    "Reciprocal Square Root": ("RSQRT",),
    "Resize Bilinear": ("RESIZE_BILINEAR",),
    "Sigmoid": ("LOGISTIC",),
    "Sine": ("SIN",),
    "Slice": ("SLICE", "STRIDED_SLICE", "SPLIT"),
    "Softmax": ("SOFTMAX",),
    "Space To Depth": ("SPACE_TO_DEPTH",),
    "Square Root": ("SQRT",),
    "Static Reshape": ("RESHAPE", "EXPAND_DIMS", "SQUEEZE"),
    "Subtract": ("SUB",),
    "Sum": ("SUM", "MEAN"),
    "Transpose": ("TRANSPOSE", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"),
    "Unpooling": ("MaxUnpooling2D",),
}
"""Ops that each operator may implement.

An operator that is not listed here has its op's name in another spelling, such as `Squared Difference`.
"""

_MAY_VANISH = frozenset((
    "CAST", "DENSIFY", "DEQUANTIZE", "EXPAND_DIMS", "PAD", "PADV2", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1",
    "RELU_N1_TO_1", "RESHAPE", "SQUEEZE",
))  # fmt: skip
"""Ops that XNNPACK merges into a neighbouring operator, or that need no operator."""

_BEFORE_THEIR_READER = frozenset(("DENSIFY", "DEQUANTIZE", "PAD", "PADV2"))
"""Ops in `_MAY_VANISH` that XNNPACK merges into the operator of the next op."""

_SEVERAL = frozenset((
    "BATCH_MATMUL", "CONCATENATION", "DEPTH_TO_SPACE", "FULLY_CONNECTED", "GELU", "MEAN", "PACK", "SOFTMAX",
    "SPACE_TO_DEPTH", "SPLIT", "STRIDED_SLICE", "SUM", "TRANSPOSE_CONV",
))  # fmt: skip
"""Ops for which XNNPACK may use more than one operator."""

_UNLIKELY, _BEAM, _TOO_MUCH = 4, 24, 1 << 30
"""Costs of possible matches; the match with the lowest cost is chosen. Each extra operator for an op costs 1."""


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """A range of op indices, and the range of the indices of the operators that ran for these ops."""

    ops: range
    operators: range


def group_operators(ops: Sequence[str], operators: Sequence[str]) -> list[OperatorGroup]:
    """Matches XNNPACK's operators with ops.

    Args:
      ops: Names of the ops in the schema, such as `CONV_2D`, in the order in which the ops run.
      operators: XNNPACK's names of the operators, such as `Convolution (NHWC, F32) IGEMM`.

    Returns:
      Groups in order; each op and each operator is in exactly one group. If no match is possible, there is a
      single group.
    """
    found = _find_takers(ops, [operator.partition(" (")[0] for operator in operators])
    if not found:
        return [OperatorGroup(range(len(ops)), range(len(operators)))]
    return _close_gaps(ops, _join(found))


def _find_takers(ops: Sequence[str], kinds: Sequence[str]) -> list[tuple[int, int]]:
    """Returns for each operator the first and last possible op, over all matches that fit best."""
    unknown = set(kinds) - _OPS.keys()
    strange = {kind for kind in unknown if not any(_is_for(kind, op) for op in set(ops))}
    # Number of operators that the first ops took, with the cost
    reached: list[dict[int, int]] = [{0: 0}]
    steps: list[dict[tuple[int, int], int]] = []  # for each op, the range of numbers, with the cost
    for op in ops:
        step = {
            (start, end): cost
            for start in reached[-1]
            for end, cost in _ends(op, kinds, start, strange)
        }
        costs: dict[int, int] = {}
        for (start, end), cost in step.items():
            costs[end] = min(costs.get(end, _TOO_MUCH), reached[-1][start] + cost)
        limit = min(costs.values(), default=0) + _BEAM
        reached.append({end: cost for end, cost in costs.items() if cost <= limit})
        steps.append(step)
    if len(kinds) not in reached[-1]:
        return []
    takers = [(len(ops), -1)] * len(kinds)
    best = {len(kinds)}
    for place in range(len(ops) - 1, -1, -1):
        on_the_way = set()
        for (start, end), cost in steps[place].items():
            if end in best and reached[place][start] + cost == reached[place + 1][end]:
                on_the_way.add(start)
                for operator in range(start, end):
                    first, last = takers[operator]
                    takers[operator] = min(first, place), max(last, place)
        best = on_the_way
    return takers


def _ends(
    op: str, kinds: Sequence[str], start: int, strange: Set[str]
) -> Iterator[tuple[int, int]]:
    """Returns how many operators may belong to the ops up to an op, from `start` on; each number with its cost."""
    yield start, 1 if op in _MAY_VANISH else _UNLIKELY
    cost, is_done = 0, False
    for end, kind in enumerate(kinds[start:], start + 1):
        if _is_for(kind, op):
            cost += _UNLIKELY if is_done and op not in _SEVERAL else 0
            is_done = True
        elif kind in (_ADDED_BEHIND if is_done else _ADDED_BEFORE):
            cost += 1
        elif kind in strange:
            cost += 2
            is_done = True
        else:
            return
        if cost > _BEAM:
            return
        if is_done:
            yield end, cost


def _is_for(kind: str, op: str) -> bool:
    return op in _OPS.get(kind, (kind.upper().replace(" ", "_"),))


def _join(takers: Sequence[tuple[int, int]]) -> list[OperatorGroup]:
    """Joins operators that share an op, or ops between theirs, to one group."""
    groups: list[OperatorGroup] = []
    for operator, (first, last) in enumerate(takers):
        if groups and first < groups[-1].ops.stop:
            group = groups.pop()
            ops = range(group.ops.start, max(group.ops.stop, last + 1))
            groups.append(OperatorGroup(ops, range(group.operators.start, operator + 1)))
        else:
            groups.append(OperatorGroup(range(first, last + 1), range(operator, operator + 1)))
    return groups


def _close_gaps(ops: Sequence[str], groups: Sequence[OperatorGroup]) -> list[OperatorGroup]:
    """Adds ops without an operator to the group before or after them.

    Ops that no other op reads form one group.
    """
    closed: list[OperatorGroup] = []
    start = 0
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        stop, end = group.ops.stop, following.ops.start if following is not None else len(ops)
        while stop < end and ops[stop] not in _BEFORE_THEIR_READER:
            stop += 1
        closed.append(OperatorGroup(range(start, stop), group.operators))
        start = stop
    if start < len(ops):
        none_left = groups[-1].operators.stop
        closed.append(OperatorGroup(range(start, len(ops)), range(none_left, none_left)))
    return closed
