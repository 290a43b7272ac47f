"""What each op of a graph can be in the other layout: its rule's plan, where its tensors can be permuted so.

Of custom ops a user's definition says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from compiler_plugin.transformations.layout_change.image_layout import LayoutChange
from compiler_plugin.transformations.layout_change.rule import (
    FREE,
    Edit,
    LayoutRule,
    OpPlan,
    known_shape,
)
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import check_unique, load_package
from litert.model.builtin_options import find_options_type
from litert.model.graph import Op, Subgraph

CustomLayout: TypeAlias = Literal["any", "image"]
"""`any`: all tensors of rank 4 or 5 may be in either layout, if they all are in the same one. `image`: they are
images, whose layout is the graph's, as a convolution's; but constants, such as filters, stay as in the file."""


@cache
def layout_rules() -> Mapping[str, LayoutRule]:
    """The rules, by builtin operator."""
    modules: Mapping[str, Iterable[LayoutRule]] = load_package(
        f"{__package__}.rules", "RULES", name=lambda rules: str(rules[0].ops[0])
    )
    entries = [
        (op, rule, module) for module, rules in modules.items() for rule in rules for op in rule.ops
    ]
    check_unique(
        [(op, f"the rules with {module}") for op, _, module in entries], "Take one of them away."
    )
    return {op: rule for op, rule, _ in entries}


def find_plans(
    subgraph: Subgraph, change: LayoutChange, custom_layouts: Mapping[str, CustomLayout]
) -> dict[Op, OpPlan]:
    """The plans of all ops that can be in the other layout.

    Args:
      subgraph: that they are in.
      change: to the other layout.
      custom_layouts: of custom ops, by name.

    Raises:
      LiteRtError: UNSUPPORTED, for an op that must be in the other layout and has a tensor that cannot.
    """
    rules = layout_rules()
    plans: dict[Op, OpPlan] = {}
    for op in subgraph.ops:
        if op.outputs and op.outputs[0] in change.settled:
            continue  # computed again in each order that it is read in
        if op.is_custom:
            layout = custom_layouts.get(op.name)
            rule: LayoutRule | None = None if layout is None else CustomOp(layout)
        else:
            rule = rules.get(op.name)
        if rule is None or not _has_own_options(op):
            continue
        plan = rule.plan(op, change)
        counts = (len(op.inputs), len(op.outputs))
        if plan is None or (len(plan.inputs), len(plan.outputs)) != counts:
            continue
        problem = _find_problem(op, plan)
        if not problem:
            plans[op] = plan
        elif plan.is_bound:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{op.name} cannot be in {change.to}: {problem}",
                f"op '{op.outputs[0].name}'",
                "Leave the op to the CPU, or use --disable_nhwc_to_nchw.",
            )
    return plans


def _has_own_options(op: Op) -> bool:
    """Whether a builtin op's options are of the kind that the schema has for it."""
    options = op.options or op.options_2
    found = None if op.is_custom else find_options_type(op.name)
    return options is None or op.is_custom or (found is not None and found[1] == options.type_name)


def _find_problem(op: Op, plan: OpPlan) -> str:
    """Why a tensor cannot be permuted as the plan says; "" where all can."""
    edit = plan.edit if isinstance(plan.edit, Edit) else Edit()
    pairs = [
        *((t, p, i) for i, (t, p) in enumerate(zip(op.inputs, plan.inputs, strict=True))),
        *((t, p, -1) for t, p in zip(op.outputs, plan.outputs, strict=True)),
    ]
    for tensor, layout, index in pairs:
        if tensor is None or layout is None or layout is FREE:
            continue
        if len(tensor.shape) != len(layout) and index not in edit.ranks:
            return f"'{tensor.name}' has not {len(layout)} dimensions, but shape {tensor.shape}"
        if tensor.blockwise is not None:
            return f"'{tensor.name}' is quantized by blocks"
        if not tensor.element_type.bits:
            return f"'{tensor.name}' is of type {tensor.element_type.name}"
    for index, permutation in edit.vectors.items():
        vector = op.inputs[index] if index < len(op.inputs) else None
        if vector is None or known_shape(vector)[:1] != (len(permutation),):
            return f"input {index} has not an element for each of {len(permutation)} dimensions"
    return ""


@dataclass(frozen=True)
class CustomOp:
    """A custom op with a layout of its own."""

    layout: CustomLayout
    ops: tuple[str, ...] = ()

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        keeps = change.settled if self.layout == "image" else ()
        inputs = [
            None if t is None or t in keeps else change.image(len(t.shape)) for t in op.inputs
        ]
        outputs = [change.image(len(tensor.shape)) for tensor in op.outputs]
        if not any(inputs) and not any(outputs):
            return None
        return OpPlan(inputs, outputs, is_bound=self.layout == "image")
