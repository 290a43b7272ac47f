"""Finds ops that do more than compute outputs from inputs: ops with state, and ops that call subgraphs.

Ops with state, and ops that call subgraphs, stay on the CPU in the order of the file, even if a plugin takes them.
"""

from __future__ import annotations

from litert.core.element_type import ElementType
from litert.model.graph import Op

CONTROL_FLOW = frozenset({
    "CALL", "CALL_ONCE", "IF", "STABLEHLO_CASE", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_REDUCE",
    "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SCATTER", "STABLEHLO_SELECT_AND_SCATTER", "STABLEHLO_SORT",
    "STABLEHLO_WHILE", "WHILE",
})  # fmt: skip
"""Builtin ops that run other subgraphs; composites are not in the set, because an NPU can run them."""

_GENERATORS = frozenset({"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"})
_HANDLES = frozenset({ElementType.RESOURCE, ElementType.VARIANT})


def why_cpu_only(op: Op) -> str:
    """Returns the reason why an NPU call cannot contain an op; "" if an NPU call can contain the op.

    A partition contains ops and tensors of one subgraph, and an NPU call keeps no state between runs.
    """
    if op.name in CONTROL_FLOW:
        return "the op runs other subgraphs, and an NPU call cannot contain subgraphs"
    for tensor in (*op.inputs, *op.outputs):
        if tensor is None:
            continue
        if tensor.is_variable:
            return (
                f"the op uses the variable tensor '{tensor.name}', and NPU calls do not support "
                "tensors that keep their values between runs"
            )
        if tensor.element_type in _HANDLES:
            kind = tensor.element_type.name.lower()
            return f"the op uses the {kind} tensor '{tensor.name}', and NPU calls do not support {kind} tensors"
        if tensor.element_type is ElementType.STRING:
            return (
                f"the op uses the string tensor '{tensor.name}', and NPU calls do not support "
                "strings"
            )
    return ""


def has_side_effects(op: Op) -> bool:
    """Returns whether an op on the CPU must keep its order relative to ops with side effects.

    Custom ops count as ops with side effects, because their behavior is unknown.
    """
    return op.is_custom or op.name in CONTROL_FLOW or has_state(op)


def has_state(op: Op) -> bool:
    """Returns whether a builtin op reads or changes state, such as a variable tensor or a random generator."""
    if op.name in _GENERATORS:
        return True
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None and (tensor.is_variable or tensor.element_type in _HANDLES):
            return True
    return False
