"""Reductions: their axes are renumbered. Without `keep_dims` what is left must be in order in both layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, layouts_without
from compiler_plugin.transformations.layout_change.rule import Edit, OpPlan, find_axes
from litert.model.builtin_options import get_builtin_option
from litert.model.graph import Op


@dataclass(frozen=True)
class Reduction:
    """Data, and the axes that are reduced."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if len(op.inputs) == 2 else None
        if data is None or len(op.outputs) != 1:
            return None
        rank = len(data.shape)
        axes = find_axes(op.inputs[1], rank)
        if axes is None:
            return None
        gone = () if get_builtin_option(op, "keep_dims") else sorted(set(axes))
        layouts = layouts_without(change, rank, gone)
        if layouts is None:
            return None
        before = layouts[0]
        numbers = axes if before is None else [before.index(axis) for axis in axes]
        return OpPlan([before, None], [layouts[1]], Edit(constants={1: numbers}))


RULES = (
    Reduction(
        (
            "MEAN", "SUM", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD",
        )
    ),
)  # fmt: skip
