"""NHWC to NCHW and back, of a subgraph: rules say what is possible, an assignment chooses, a rewriter does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler_plugin.leftovers import (
    drop_buffers,
    drop_operator_codes,
    find_dead_tensors,
    find_results,
    move_control_dependencies,
)
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.layout_change.assignment import assign_layouts
from compiler_plugin.transformations.layout_change.image_layout import LayoutChange
from compiler_plugin.transformations.layout_change.planning import CustomLayout, find_plans
from compiler_plugin.transformations.layout_change.rewriter import Rewriter
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
