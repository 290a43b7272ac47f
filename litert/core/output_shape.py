"""Rules for the shape of an op's output: either the shape of an input, or a formula for each dimension.

In JSON, a rule is either `{"input": 0}`, or an array with a formula for each dimension, such as `["B", "F*2", 4]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.kernel_dims import kernel_dims
from litert.core.sizes import Size
from litert.core.status import Status

_MOST_PORTS = 65_535
_MOST_DIMENSIONS = 16


@dataclass(frozen=True, slots=True)
class SameShape:
    """The rule that an output has the same shape as an input."""

    input: int


OutputShape = SameShape | Sequence[Formula]
"""A rule for the shape of an op's output: the shape of an input, or a formula for each dimension, in order."""


def output_sizes(rule: OutputShape, inputs: Sequence[Sequence[Size] | None]) -> Sequence[Size]:
    """Computes an output's shape from the shapes of the op's inputs; None stands for an absent optional input.

    In formulas, B, F, Y and X are the batch size, the number of features, the height and the width of input 0.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the op lacks the input in the rule, or if a formula has no value.
    """
    if isinstance(rule, SameShape):
        shape = inputs[rule.input] if rule.input < len(inputs) else None
        if shape is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the output must have the shape of input {rule.input}, but the op has no input {rule.input}",
            )
        return shape
    first = inputs[0] if inputs and inputs[0] is not None else ()
    return [formula.resolve(kernel_dims(first), inputs) for formula in rule]


def read_output_shape(node: JsonNode) -> OutputShape | None:
    """Parses a shape rule from JSON; returns None for `null`."""
    if node.value is None:
        return None
    if isinstance(node.value, list):
        return [_shape_formula(item) for item in node.items(1, _MOST_DIMENSIONS)]
    return SameShape(node.fields(("input",))["input"].integer(0, _MOST_PORTS))


def read_formula(node: JsonNode) -> Formula:
    """Parses a formula from JSON, where it is a string or a number."""
    if not isinstance(node.value, str):
        return Formula(str(node.integer(0, 2**31 - 1)))
    try:
        return Formula(node.text())
    except LiteRtError as error:
        raise node.error(error.what, error.hint) from None


def _shape_formula(node: JsonNode) -> Formula:
    formula = read_formula(node)
    if any(size.is_output for size in formula.tensor_sizes):
        raise node.error("the formula uses an output's shape, but must determine this shape")
    return formula
