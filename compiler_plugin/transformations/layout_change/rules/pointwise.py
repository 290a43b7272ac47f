"""Rules for elementwise ops, which work in any layout if all their tensors have the same layout.

For broadcasting, TFLite aligns the shapes of operands of lower rank at the last dimension. The rule therefore pads
these shapes with leading ones and then permutes them; for example, `[C]` becomes `[C, 1, 1]`. Operands with one
element do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler_plugin.transformations.layout_change.image_layout import LayoutChange
from compiler_plugin.transformations.layout_change.rule import (
    Edit,
    OpPlan,
    PortLayout,
    known_shape,
)
from litert.model.graph import Op


@dataclass(frozen=True)
class Elementwise:
    """Rule for elementwise ops with one output, which has the highest rank of all operands.

    Attributes:
      broadcasts: Whether the op broadcasts operands of lower rank, aligned at the last dimension.
    """

    ops: Sequence[str]
    broadcasts: bool = True

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        if len(op.outputs) != 1:
            return None
        rank = len(op.outputs[0].shape)
        permutation = change.image(rank)
        if permutation is None:
            return None
        inputs: list[PortLayout] = []
        ranks: dict[int, int] = {}
        cost = 0
        for index, tensor in enumerate(op.inputs):
            layout: PortLayout = None
            if tensor is not None and len(tensor.shape) == rank:
                layout = permutation
            elif tensor is not None and any(size != 1 for size in known_shape(tensor)):
                if not self.broadcasts or not tensor.shape or len(tensor.shape) > rank:
                    return None
                if tensor not in change.settled:
                    if known_shape(tensor).count(-1) > 1 or len(tensor.shape) == 4:
                        return None
                    cost += prod(tensor.shape) if len(tensor.shape) > 1 else 1
                ranks[index] = rank
                layout = permutation
            inputs.append(layout)
        if not any(inputs):
            return None
        return OpPlan(inputs, [permutation], Edit(ranks=ranks), cost=cost)


RULES = (
    Elementwise(
        (
            "ABS", "CAST", "CEIL", "COMPLEX_ABS", "COS", "DENSIFY", "DEQUANTIZE", "ELU", "EXP",
            "FAKE_QUANT", "FLOOR", "GELU", "HARD_SWISH", "IMAG", "LEAKY_RELU", "LOG", "LOGICAL_NOT",
            "LOGISTIC", "NEG", "QUANTIZE", "REAL", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1",
            "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH", "ZEROS_LIKE", "BUCKETIZE",
        )
    ),
    Elementwise(
        (
            "ADD", "ATAN2", "BITWISE_XOR", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER",
            "GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM",
            "MUL", "NOT_EQUAL", "POW", "PRELU", "RIGHT_SHIFT", "SELECT_V2", "SQUARED_DIFFERENCE", "SUB",
        )
    ),
    Elementwise(("ADD_N", "SELECT"), broadcasts=False),  # a vector of conditions is for dimension 0
    Elementwise(
        (
            "STABLEHLO_ABS", "STABLEHLO_ADD", "STABLEHLO_AND", "STABLEHLO_CBRT", "STABLEHLO_COMPARE",
            "STABLEHLO_CONVERT", "STABLEHLO_COSINE", "STABLEHLO_DIVIDE", "STABLEHLO_EXPONENTIAL",
            "STABLEHLO_FLOOR", "STABLEHLO_LOG", "STABLEHLO_LOGISTIC", "STABLEHLO_MAXIMUM",
            "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY", "STABLEHLO_NEGATE", "STABLEHLO_OR",
            "STABLEHLO_POWER", "STABLEHLO_REMAINDER", "STABLEHLO_RSQRT", "STABLEHLO_SELECT",
            "STABLEHLO_SHIFT_LEFT", "STABLEHLO_SUBTRACT", "STABLEHLO_TANH",
        ),
        broadcasts=False,
    ),
)  # fmt: skip
