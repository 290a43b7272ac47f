"""Layouts of a whole subgraph: NHWC to NCHW and back, and an NCHW graph in a form that stock LiteRT knows.

Rules say what is possible, an assignment chooses, a rewriter does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_plugin.leftovers import (
    drop_buffers,
    drop_operator_codes,
    find_dead_tensors,
    find_results,
    move_control_dependencies,
)
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.layout_change.assignment import Assignment, assign_layouts
from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from compiler_plugin.transformations.layout_change.rewriter import Rewriter
from compiler_plugin.transformations.layout_change.rule import (
    FREE,
    CustomLayout,
    Edit,
    OpPlan,
    find_plans,
    layout_rules,
)
from compiler_plugin.transformations.layout_change.rules.images import ImageOp
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

    to: DataLayout
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
    to: DataLayout,
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
    plans = find_plans(subgraph, change, custom_layouts or {})
    assignments = assign_layouts(subgraph, plans, change, results)
    rewriter = Rewriter(subgraph, model, change, results)
    rewriter.run(assignments)
    _clean_up(model, subgraph, old_ops, rewriter.left)
    return ChangeReport(to, len(assignments), rewriter.transposes, rewriter.reshapes)


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
    move_control_dependencies(model, {subgraph: moved})


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


def to_stock_form(
    model: Model, subgraph: Subgraph, permute: Callable[[Tensor, Permutation], Tensor]
) -> None:
    """Changes ops of an NCHW graph, in place, so that stock computes what they mean.

    Args:
      model: that the subgraph is in.
      subgraph: of builtin ops. Shapes of their results need not be known.
      permute: gives a constant in another order.
    """
    constants = {
        tensor for op in subgraph.ops for tensor in op.inputs if tensor and tensor.is_constant
    }
    change = LayoutChange("NHWC", constants)
    rules = layout_rules()
    assignments: dict[Op, Assignment] = {}
    for op in subgraph.ops:
        rule = rules.get(op.name)
        plan = rule.plan_any(op, change) if isinstance(rule, ImageOp) else None
        if plan is not None:
            inputs = [None if layout is FREE else layout for layout in plan.inputs]
            outputs = [None if layout is FREE else layout for layout in plan.outputs]
            assignments[op] = Assignment(_with_fitting_vectors(op, plan), inputs, outputs)
    written = dict.fromkeys(tensor for op in subgraph.ops for tensor in op.outputs)
    if assignments:
        Rewriter(subgraph, model, change, written, permute).run(assignments)


def _with_fitting_vectors(op: Op, plan: OpPlan) -> OpPlan:
    """A plan that leaves constants of a wrong size alone: stock says what is wrong with them."""
    assert isinstance(plan.edit, Edit)
    vectors = {
        index: permutation
        for index, permutation in plan.edit.vectors.items()
        if (vector := op.inputs[index]) is not None
        and (not vector.is_constant or vector.shape == (len(permutation),))
    }
    return replace(plan, edit=replace(plan.edit, vectors=vectors))
