"""A few ops of an NCHW graph in a form that stock LiteRT knows: to ask it for their shapes and values.

Each op that is bound to a layout reads its image and its filter in TFLite's order. All tensors that were there
stay as they are, so that each can be asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compiler_plugin.transformations.layout_change.assignment import Assignment
from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from compiler_plugin.transformations.layout_change.planning import layout_rules
from compiler_plugin.transformations.layout_change.rewriter import Rewriter
from compiler_plugin.transformations.layout_change.rule import FREE, Edit, OpPlan
from compiler_plugin.transformations.layout_change.rules.images import ImageOp
from litert.model.graph import Model, Op, Subgraph, Tensor


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
