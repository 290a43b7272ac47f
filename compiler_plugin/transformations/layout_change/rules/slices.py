"""Rules for ops with one or two numbers for each dimension; if an op computes them, a GATHER permutes them."""

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
    """Rule for ops with input vectors that have an element, or a row, for each dimension of the data.

    Attributes:
      data: Indices of the data inputs, whose dimensions are permuted.
      vectors: Indices of the vectors, whose elements or rows are permuted.
      broadcasts: Whether data inputs may have a lower rank than the output; their shapes are then padded with
        leading ones.
    """

    ops: Sequence[str]
    data: Sequence[int] = (0,)
    vectors: Sequence[int] = (1,)
    broadcasts: bool = False

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        rank = len(op.outputs[0].shape) if op.outputs else 0
        permutation = change.image(rank)
        if permutation is None or not _have_vectors(op, rank, self.vectors):
            return None
        inputs: list[PortLayout] = [None] * len(op.inputs)
        ranks: dict[int, int] = {}
        for index in self.data:
            tensor = op.inputs[index] if index < len(inputs) else None
            if tensor is None or len(tensor.shape) > rank:
                return None
            if len(tensor.shape) < rank:
                if not self.broadcasts or tensor not in change.settled:
                    return None
                ranks[index] = rank
            inputs[index] = permutation
        edit = Edit(vectors=dict.fromkeys(self.vectors, permutation), ranks=ranks)
        return OpPlan(inputs, [permutation], edit, cost=_computed(op, self.vectors))


@dataclass(frozen=True)
class StridedSlice:
    """Rule for STRIDED_SLICE, which permutes starts, ends, strides and bit masks; the op may remove dimensions."""

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
        if not _have_vectors(op, rank, (1, 2, 3)):
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


def _have_vectors(op: Op, rank: int, vectors: Sequence[int]) -> bool:
    """Whether the vector inputs exist and have an element or a row for each dimension."""
    found = [op.inputs[index] if index < len(op.inputs) else None for index in vectors]
    return all(t is not None and t.shape and known_shape(t)[0] == rank for t in found)


def _computed(op: Op, vectors: Sequence[int]) -> int:
    """Returns the number of elements that GATHER ops must reorder."""
    found = [op.inputs[index] for index in vectors]
    return sum(tensor.shape[0] for tensor in found if tensor is not None and not tensor.is_constant)


RULES = (
    PerDimension(("PAD", "PADV2", "MIRROR_PAD", "TILE")),
    PerDimension(("SLICE",), vectors=(1, 2)),
    PerDimension(("DYNAMIC_UPDATE_SLICE",), data=(0, 1), vectors=(2,)),
    PerDimension(("BROADCAST_TO",), broadcasts=True),
    PerDimension(("FILL",), data=(), vectors=(0,)),
    StridedSlice(("STRIDED_SLICE",)),
)
