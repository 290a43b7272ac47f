"""Ops about shapes: TRANSPOSE, RESHAPE, SHAPE, RANK.

A TRANSPOSE takes each layout in, and gives each out, by another permutation. A RESHAPE does so where
memory stays as it is: a `[1, 1, 1, C]` has one order in both layouts. What then does nothing goes. SHAPE of a
permuted tensor is followed by a GATHER, which brings the sizes back into the old order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """Any layout in, any layout out."""

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
    """A new shape for the same elements in memory."""

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
    """The sizes of a tensor, in the order that the file has them in."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if op.inputs else None
        permutation = None if data is None else change.image(len(data.shape))
        if permutation is None or len(op.outputs) != 1:
            return None
        edit = Edit(shape_outputs={0: inverse(permutation)})
        return OpPlan([permutation], [None], edit, cost=len(permutation))


@dataclass(frozen=True)
class Rank:
    """The same in any layout."""

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
    """Whether a reshape joins and parts the same dimensions in both layouts, as H and W to H * W."""
    groups = _groups(old, new)
    if groups is None:
        return False
    from_old = {axis: index for index, (axes, _) in enumerate(groups) for axis in axes}
    from_new = {axis: index for index, (_, axes) in enumerate(groups) for axis in axes}
    orders = [
        [axis for axis in order if shape[axis] != 1]
        for order, shape in ((before, old), (after, new))
    ]
    walks = [
        [found[axis] for axis in order]
        for found, order in zip((from_old, from_new), orders, strict=True)
    ]
    # Each group lies together and in its own order, and the groups come in the same order.
    for walk, order in zip(walks, orders, strict=True):
        runs = [g for g, previous in zip(walk, [None, *walk], strict=False) if g != previous]
        if len(set(runs)) != len(runs):
            return False
        if any(
            a > b and x == y for a, b, x, y in zip(order, order[1:], walk, walk[1:], strict=False)
        ):
            return False
    return list(dict.fromkeys(walks[0])) == list(dict.fromkeys(walks[1]))


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """The shortest runs of dimensions, without those of 1, with the same product on both sides."""
    left = [axis for axis in range(len(old)) if old[axis] != 1]
    right = [axis for axis in range(len(new)) if new[axis] != 1]
    if any(size < 1 for size in (*old, *new)):
        return None
    groups: list[tuple[list[int], list[int]]] = []
    while left or right:
        if not left or not right:
            return None
        ours, theirs = [left.pop(0)], [right.pop(0)]
        a, b = old[ours[0]], new[theirs[0]]
        while a != b:
            side, axes, sizes = (left, ours, old) if a < b else (right, theirs, new)
            if not side:
                return None
            axes.append(side.pop(0))
            if a < b:
                a *= sizes[axes[-1]]
            else:
                b *= sizes[axes[-1]]
        groups.append((ours, theirs))
    return groups


RULES = (
    Transpose(("TRANSPOSE",)),
    Reshape(("RESHAPE",)),
    Shape(("SHAPE",)),
    Rank(("RANK",)),
)
