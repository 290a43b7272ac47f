"""NHWC to NCHW and back, of a subgraph: rules say what is possible, an assignment chooses, a rewriter does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from compiler_plugin.leftovers import (
    drop_buffers,
    drop_operator_codes,
    find_dead_tensors,
    find_results,
    move_control_dependencies,
)
from compiler_plugin.transformations.layout_change.assignment import assign_layouts
from compiler_plugin.transformations.layout_change.custom import CustomLayout, CustomOp
from compiler_plugin.transformations.layout_change.layout import LayoutChange, LayoutName
from compiler_plugin.transformations.layout_change.rewriting import Rewriter
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
from litert.model.graph import Model, Op, Subgraph, Tensor

_COMPUTED = ("DENSIFY", "DEQUANTIZE", "CAST")
"""Ops of one input that filters come through."""


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """What a change of layout has done.

    Attributes:
      to: the layout.
      ops: that work in the other layout now.
      transposes, reshapes: ops that were added where layouts meet; a RESHAPE moves no data.
    """

    to: LayoutName
    ops: int = 0
    transposes: int = 0
    reshapes: int = 0

    def __str__(self) -> str:
        added = [
            f"{count} {name}"
            for count, name in ((self.transposes, "TRANSPOSE"), (self.reshapes, "RESHAPE"))
            if count
        ]
        ops = "1 op is" if self.ops == 1 else f"{self.ops} ops are"
        return f"{ops} in {self.to}; added: {', '.join(added) or 'none'}"


def change_layout(
    model: Model,
    subgraph: Subgraph,
    to: LayoutName,
    custom_layouts: Mapping[str, CustomLayout] | None = None,
) -> ChangeReport:
    """Brings a subgraph into the other layout, in place; `layout` has the contract.

    Inputs, outputs and signatures keep their names, shapes and order of dimensions.

    Args:
      model: that the subgraph is in.
      subgraph: to change.
      to: the layout that it is not in.
      custom_layouts: of custom ops, by their names; all others see their tensors as the file has them.

    Returns:
      What it took.

    Raises:
      LiteRtError: UNSUPPORTED, naming a tensor that an op must have in the other layout and that cannot be
        brought there.
    """
    old_ops = subgraph.ops
    read_outside = find_results(model, subgraph)
    results = dict.fromkeys(tensor for tensor in subgraph.tensors if tensor in read_outside)
    change = LayoutChange(to, _find_settled(subgraph, results))
    plans = _find_plans(subgraph, change, custom_layouts or {})
    assignments = assign_layouts(subgraph, plans, change, results)
    rewriter = Rewriter(subgraph, model, change, results)
    rewriter.run(assignments)
    _clean_up(model, subgraph, old_ops, rewriter.left)
    return ChangeReport(to, len(assignments), rewriter.transposes, rewriter.reshapes)


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


def _clean_up(
    model: Model, subgraph: Subgraph, old_ops: Sequence[Op], candidates: Iterable[Tensor]
) -> None:
    """Drops what nothing has any more, and names ops by their new places where the metadata name any."""
    dead = find_dead_tensors(model, subgraph, candidates)
    subgraph.remove_tensors(dead)
    drop_buffers(model, {tensor.buffer for tensor in dead})
    drop_operator_codes(model, {op.code for op in old_ops})
    places = {op: place for place, op in enumerate(subgraph.ops)}
    moved = {old: places[op] for old, op in enumerate(old_ops) if op in places}
    move_control_dependencies(model, subgraph, moved)


def _find_plans(
    subgraph: Subgraph, change: LayoutChange, custom_layouts: Mapping[str, CustomLayout]
) -> dict[Op, OpPlan]:
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


def _find_settled(subgraph: Subgraph, results: Mapping[Tensor, None]) -> set[Tensor]:
    """Constants, and what is computed of one of them alone: in another layout they cost nothing."""
    settled: set[Tensor] = set()
    for op in subgraph.ops:
        settled.update(tensor for tensor in op.inputs if tensor is not None and tensor.is_constant)
        if op.name in _COMPUTED and len(op.inputs) == len(op.outputs) == 1:
            source, output = op.inputs[0], op.outputs[0]
            is_known = source in settled and output not in results
            if is_known and source is not None and source.shape == output.shape:
                settled.add(output)
    return settled
