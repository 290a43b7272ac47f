"""Rules for ops that read or change shapes: TRANSPOSE, RESHAPE, SHAPE, RANK.

A TRANSPOSE can read and write any layout if its permutation is adapted. A RESHAPE can read and write any layout if
the data in memory are the same in both layouts, as for the shape `[1, 1, 1, C]`. A TRANSPOSE or RESHAPE that then
has no effect is removed. After a SHAPE op that reads a permuted tensor, a GATHER op restores the old order of the
sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul

from compiler_plugin.transformations.layout_change.image_layout import (
    LayoutChange,
    Permutation,
    inverse,
    keeps_memory,
    permute,
    step,
)
from compiler_plugin.transformations.layout_change.rule import (
    FREE,
    Edit,
    Layouts,
    OpPlan,
    PortLayout,
    find_axes,
    known_shape,
)
from litert.model.builtin_options import get_builtin_option
from litert.model.graph import Op


@dataclass(frozen=True)
class Transpose:
    """Rule for TRANSPOSE, which can read and write any layout."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if len(op.inputs) == 2 else None
        if data is None or len(op.outputs) != 1 or change.image(len(data.shape)) is None:
            return None
        rank = len(data.shape)
        axes = find_axes(op.inputs[1], rank)
        if axes is None or sorted(axes) != list(range(rank)):
            return None

        def edit(inputs: Layouts, outputs: Layouts) -> Edit:
            wanted = permute(axes, outputs[0]) if outputs[0] else tuple(axes)
            numbers = step(inputs[0], wanted)
            return Edit(constants={1: numbers}, is_identity=numbers == tuple(range(rank)))

        return OpPlan([FREE, None], [FREE], edit)


@dataclass(frozen=True)
class Reshape:
    """Rule for RESHAPE, which keeps the order of elements in memory."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if op.inputs else None
        if data is None or len(op.outputs) != 1:
            return None
        old, new = known_shape(data), known_shape(op.outputs[0])
        before, after = change.image(len(old)), change.image(len(new))
        shape = op.inputs[1] if len(op.inputs) > 1 else None
        sizes = known_shape(shape) if shape is not None else (len(_stated_shape(op)),)
        if sizes != (len(new),):
            after = None

        def edit(inputs: Layouts, outputs: Layouts) -> Edit:
            order = outputs[0]
            shapes = [
                permute(sizes, layout) if layout else tuple(sizes)
                for sizes, layout in ((old, inputs[0]), (new, order))
            ]
            is_identity = shapes[0] == shapes[1] and -1 not in shapes[0]
            if order is None:
                return Edit(is_identity=is_identity)
            stated = _stated_shape(op)
            options = {"new_shape": permute(stated, order)} if len(stated) == len(order) else {}
            vectors = {} if shape is None else {1: order}
            return Edit(options=options, vectors=vectors, is_identity=is_identity)

        rest: list[PortLayout] = [None] * (len(op.inputs) - 1)
        into: PortLayout = FREE if before is not None and keeps_memory(old, before) else None
        out: PortLayout = FREE if after is not None and keeps_memory(new, after) else None
        if before is not None and after is not None and into is not FREE and out is not FREE:
            alike = _regroups_alike(old, new, before, after)
            return OpPlan([before, *rest], [after], edit) if alike else None
        return OpPlan([into, *rest], [out], edit) if into is FREE or out is FREE else None


@dataclass(frozen=True)
class Shape:
    """Rule for SHAPE, whose output keeps the order of sizes in the file."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if op.inputs else None
        permutation = None if data is None else change.image(len(data.shape))
        if permutation is None or len(op.outputs) != 1:
            return None
        edit = Edit(shape_output=inverse(permutation))
        return OpPlan([permutation], [None], edit, cost=len(permutation))


@dataclass(frozen=True)
class Rank:
    """Rule for RANK, whose output is the same in any layout."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if op.inputs else None
        if data is None or change.image(len(data.shape)) is None:
            return None
        return OpPlan([FREE], [None])


def _stated_shape(op: Op) -> Sequence[int]:
    return get_builtin_option(op, "new_shape") or ()


def _regroups_alike(
    old: Sequence[int], new: Sequence[int], before: Permutation, after: Permutation
) -> bool:
    """Whether a reshape merges and splits the same dimensions in both layouts, as H and W to H * W.

    The groups of merged dimensions end where the products of both shapes are equal.
    """
    if prod(old) != prod(new) or min(*old, *new) < 1:
        return False
    products = [list(accumulate(shape, mul)) for shape in (old, new)]
    ends = sorted(set(products[0]).intersection(products[1]))
    sequences: list[list[int]] = []
    for shape, order, reached in zip((old, new), (before, after), products, strict=True):
        group_of = {a: bisect_left(ends, reached[a]) for a, size in enumerate(shape) if size != 1}
        moved = [axis for axis in order if axis in group_of]
        sequence = list(dict.fromkeys(group_of[axis] for axis in moved))
        if moved != [axis for group in sequence for axis in group_of if group_of[axis] == group]:
            return False  # a group does not lie together, or not in its own order
        sequences.append(sequence)
    return sequences[0] == sequences[1]


RULES = (
    Transpose(("TRANSPOSE",)),
    Reshape(("RESHAPE",)),
    Shape(("SHAPE",)),
    Rank(("RANK",)),
)
