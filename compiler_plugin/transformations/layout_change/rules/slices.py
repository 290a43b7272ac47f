"""Ops with a number, or a pair of them, for each dimension: constants are permuted, computed ones by a GATHER."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler_plugin.transformations.layout_change.image_layout import (
    LayoutChange,
    layouts_without,
    permute,
)
from compiler_plugin.transformations.layout_change.rule import (
    Edit,
    OpPlan,
    PortLayout,
    find_numbers,
    known_shape,
)
from litert.model.builtin_options import get_builtin_option
from litert.model.graph import Op


@dataclass(frozen=True)
class PerDimension:
    """Data and output of one rank.

    Attributes:
      data: indices of the inputs that are permuted.
      vectors: indices of the inputs with an element, or a row, for each dimension.
    """

    ops: Sequence[str]
    data: Sequence[int] = (0,)
    vectors: Sequence[int] = (1,)

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        rank = len(op.outputs[0].shape) if op.outputs else 0
        permutation = change.image(rank)
        if permutation is None or not _have(op, rank, self.data, self.vectors):
            return None
        inputs: list[PortLayout] = [None] * len(op.inputs)
        for index in self.data:
            inputs[index] = permutation
        edit = Edit(vectors=dict.fromkeys(self.vectors, permutation))
        return OpPlan(inputs, [permutation], edit, cost=_computed(op, self.vectors))


@dataclass(frozen=True)
class BroadcastTo:
    """A shape, and data that may be of lower rank: with ones in front."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if len(op.inputs) == 2 else None
        rank = len(op.outputs[0].shape) if op.outputs else 0
        permutation = change.image(rank)
        if permutation is None or data is None or not _have(op, rank, (), (1,)):
            return None
        if len(data.shape) > rank or (len(data.shape) < rank and data not in change.settled):
            return None
        ranks = {0: rank} if len(data.shape) < rank else {}
        edit = Edit(vectors={1: permutation}, ranks=ranks)
        return OpPlan([permutation, None], [permutation], edit, cost=_computed(op, (1,)))


@dataclass(frozen=True)
class StridedSlice:
    """Starts, ends and strides, with bits for dimensions in five masks; a dimension may go."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if len(op.inputs) == 4 else None
        if data is None or len(op.outputs) != 1:
            return None
        if get_builtin_option(op, "ellipsis_mask") or get_builtin_option(op, "new_axis_mask"):
            return None
        rank = len(data.shape)
        shrunk = get_builtin_option(op, "shrink_axis_mask")
        layouts = layouts_without(change, rank, [a for a in range(rank) if shrunk >> a & 1])
        if layouts is None or layouts[0] is None:
            return None
        before = layouts[0]
        masks: dict[str, int] = {
            name: get_builtin_option(op, name) for name in ("begin_mask", "end_mask")
        }
        constants: Mapping[int, Sequence[int]] = {}
        if not _have(op, rank, (), (1, 2, 3)):
            # The dimensions that are not named are taken whole.
            numbers = [find_numbers(tensor) for tensor in op.inputs[1:]]
            if any(part is None or len(part) > rank for part in numbers):
                return None
            whole = [[*(part or ()), *[1] * (rank - len(part or ()))] for part in numbers]
            rest = ((1 << rank) - 1) & ~((1 << len(numbers[0] or ())) - 1)
            masks = {name: mask | rest for name, mask in masks.items()}
            constants = {index + 1: permute(part, before) for index, part in enumerate(whole)}
        masks["shrink_axis_mask"] = shrunk
        options = {
            name: sum((mask >> axis & 1) << place for place, axis in enumerate(before))
            for name, mask in masks.items()
        }
        vectors = {} if constants else dict.fromkeys((1, 2, 3), before)
        return OpPlan(
            [before, None, None, None],
            [layouts[1]],
            Edit(options=options, constants=constants, vectors=vectors),
            cost=_computed(op, (1, 2, 3)),
        )


@dataclass(frozen=True)
class Fill:
    """One value in a shape."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        rank = len(op.outputs[0].shape) if op.outputs else 0
        permutation = change.image(rank)
        if permutation is None or not _have(op, rank, (), (0,)):
            return None
        edit = Edit(vectors={0: permutation})
        return OpPlan([None, None], [permutation], edit, cost=_computed(op, (0,)))


def _have(op: Op, rank: int, data: Sequence[int], vectors: Sequence[int]) -> bool:
    """Whether inputs are there, data of that rank, and vectors with an element or a row for each dimension."""
    for index in (*data, *vectors):
        tensor = op.inputs[index] if index < len(op.inputs) else None
        if tensor is None:
            return False
        if index in data and len(tensor.shape) != rank:
            return False
        if index in vectors and (not tensor.shape or known_shape(tensor)[0] != rank):
            return False
    return True


def _computed(op: Op, vectors: Sequence[int]) -> int:
    """Elements that a GATHER brings into the new order."""
    found = [op.inputs[index] for index in vectors]
    return sum(tensor.shape[0] for tensor in found if tensor is not None and not tensor.is_constant)


RULES = (
    PerDimension(("PAD", "PADV2", "MIRROR_PAD", "TILE")),
    PerDimension(("SLICE",), vectors=(1, 2)),
    PerDimension(("DYNAMIC_UPDATE_SLICE",), data=(0, 1), vectors=(2,)),
    BroadcastTo(("BROADCAST_TO",)),
    StridedSlice(("STRIDED_SLICE",)),
    Fill(("FILL",)),
)
