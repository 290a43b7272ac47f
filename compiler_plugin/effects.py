"""What ops do beside reading inputs and writing outputs: state, and calls of other subgraphs.

Such ops stay on the CPU, in the order that they have in the file, whatever a plugin wants.
"""

from __future__ import annotations

from litert.core.element_type import ElementType
from litert.model.graph import Op

CONTROL_FLOW = frozenset({
    "CALL", "CALL_ONCE", "IF", "STABLEHLO_CASE", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_REDUCE",
    "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SCATTER", "STABLEHLO_SELECT_AND_SCATTER", "STABLEHLO_SORT",
    "STABLEHLO_WHILE", "WHILE",
})  # fmt: skip
"""Builtin ops that run other subgraphs of the model. A composite is none: its name says what it does."""

_GENERATORS = frozenset({"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"})
_HANDLES = frozenset({ElementType.RESOURCE, ElementType.VARIANT})


def why_cpu_only(op: Op) -> str:
    """Why no NPU call can hold an op; "" where it can.

    A partition has nothing of the model but its own ops and tensors, and an NPU call keeps no state.
    """
    if op.name in CONTROL_FLOW:
        return "it runs other subgraphs, which a partition does not have"
    for tensor in (*op.inputs, *op.outputs):
        if tensor is None:
            continue
        if tensor.is_variable:
            return (
                f"it uses the variable tensor '{tensor.name}', which keeps its value between runs"
            )
        if tensor.element_type in _HANDLES:
            return f"it uses the {tensor.element_type.name.lower()} tensor '{tensor.name}'"
        if tensor.element_type is ElementType.STRING:
            return f"it uses '{tensor.name}', a tensor of strings, which no NPU call takes"
    return ""


def has_side_effects(op: Op) -> bool:
    """Whether an op on the CPU must keep its place among others of its kind.

    Nobody knows what a custom op does.
    """
    return op.is_custom or op.name in CONTROL_FLOW or has_state(op)


def has_state(op: Op) -> bool:
    """Whether a builtin op's results depend on more than its inputs, or it changes more than its outputs."""
    if op.name in _GENERATORS:
        return True
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None and (tensor.is_variable or tensor.element_type in _HANDLES):
            return True
    return False
