"""Ops that work along an axis, which is renumbered: an option or a constant input.

An axis that is computed is nobody's to renumber: the op then sees its tensors as the file has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compiler_plugin.transformations.layout_change.image_layout import (
    LayoutChange,
    Permutation,
    layouts_without,
)
from compiler_plugin.transformations.layout_change.rule import (
    Edit,
    OpPlan,
    PortLayout,
    find_axes,
    normal_axes,
)
from litert.model.builtin_options import get_builtin_option
from litert.model.graph import Op, Tensor


@dataclass(frozen=True)
class OptionAxes:
    """Axes are options; all tensors of the data's rank are permuted.

    Attributes:
      options: that are axes.
    """

    ops: Sequence[str]
    options: Sequence[str] = ("axis",)

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        rank = len(op.outputs[0].shape) if op.outputs else 0
        permutation = change.image(rank)
        axes = normal_axes([get_builtin_option(op, name) for name in self.options], rank)
        if permutation is None or axes is None:
            return None
        options = {
            name: permutation.index(axis) for name, axis in zip(self.options, axes, strict=True)
        }
        return OpPlan(_like(op.inputs, permutation), [permutation], Edit(options=options))


@dataclass(frozen=True)
class InputAxes:
    """Axes are a constant input; data and all outputs are permuted.

    Attributes:
      data, axes: indices of the inputs.
    """

    ops: Sequence[str]
    data: int = 0
    axes: int = 1

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        if len(op.inputs) <= max(self.data, self.axes):
            return None
        data = op.inputs[self.data]
        rank = 0 if data is None else len(data.shape)
        permutation = change.image(rank)
        axes = find_axes(op.inputs[self.axes], rank)
        if permutation is None or axes is None:
            return None
        inputs: list[PortLayout] = [None] * len(op.inputs)
        inputs[self.data] = permutation
        numbers = [permutation.index(axis) for axis in axes]
        edit = Edit(constants={self.axes: numbers})
        return OpPlan(inputs, [permutation] * len(op.outputs), edit)


@dataclass(frozen=True)
class ArgMax:
    """The place of the greatest or least element along an axis, which goes."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if len(op.inputs) == 2 else None
        rank = 0 if data is None else len(data.shape)
        axes = find_axes(op.inputs[1], rank) if rank else None
        layouts = layouts_without(change, rank, axes) if axes else None
        if axes is None or layouts is None:
            return None
        return OpPlan(
            [layouts[0], None],
            [layouts[1]],
            Edit(constants={1: [_place(axes[0], layouts[0])]}),
        )


@dataclass(frozen=True)
class Pack:
    """Tensors become one, along an axis that is new."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        found = _find_axis(op, op.outputs[0] if op.outputs else None, change)
        if found is None:
            return None
        return OpPlan([found.without] * len(op.inputs), [found.layout], found.edit)


@dataclass(frozen=True)
class Unpack:
    """A tensor becomes several, along an axis that goes."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        found = _find_axis(op, op.inputs[0] if op.inputs else None, change)
        if found is None:
            return None
        return OpPlan([found.layout], [found.without] * len(op.outputs), found.edit)


@dataclass(frozen=True)
class Gather:
    """Takes elements along an axis, by a vector of indices, or by one: then the axis goes."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data, indices = op.inputs if len(op.inputs) == 2 else (None, None)
        if data is None or indices is None or get_builtin_option(op, "batch_dims"):
            return None
        rank = len(data.shape)
        axes = normal_axes([get_builtin_option(op, "axis")], rank)
        if axes is None or len(indices.shape) > 1:
            return None
        gone = [] if indices.shape else axes
        layouts = layouts_without(change, rank, gone)
        if layouts is None:
            return None
        axis = _place(axes[0], layouts[0])
        return OpPlan([layouts[0], None], [layouts[1]], Edit(options={"axis": axis}))


@dataclass(frozen=True)
class OneHot:
    """Classes become vectors, along an axis that is new."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        found = _find_axis(op, op.outputs[0] if op.outputs else None, change)
        if found is None:
            return None
        return OpPlan([found.without, *[None] * (len(op.inputs) - 1)], [found.layout], found.edit)


class _Axis(NamedTuple):
    """An option `axis` that some tensors of an op have, and others lack.

    Attributes:
      layout, without: of tensors with that axis, and without.
      edit: renumbers it.
    """

    layout: Permutation | None
    without: Permutation | None
    edit: Edit


def _find_axis(op: Op, tensor: Tensor | None, change: LayoutChange) -> _Axis | None:
    """The axis of a tensor that has it; None where there is no such axis, or no layout without it."""
    rank = 0 if tensor is None else len(tensor.shape)
    axes = normal_axes([get_builtin_option(op, "axis")], rank)
    layouts = layouts_without(change, rank, axes) if axes else None
    if axes is None or layouts is None:
        return None
    return _Axis(*layouts, Edit(options={"axis": _place(axes[0], layouts[0])}))


def _place(axis: int, layout: Permutation | None) -> int:
    return axis if layout is None else layout.index(axis)


def _like(tensors: Sequence[Tensor | None], permutation: Permutation) -> list[PortLayout]:
    rank = len(permutation)
    return [permutation if t is not None and len(t.shape) == rank else None for t in tensors]


RULES = (
    OptionAxes(("CONCATENATION",)),
    OptionAxes(("REVERSE_SEQUENCE",), options=("seq_dim", "batch_dim")),
    InputAxes(("SPLIT",), data=1, axes=0),
    InputAxes(("SPLIT_V",), axes=2),
    InputAxes(("CUMSUM", "REVERSE_V2")),
    ArgMax(("ARG_MAX", "ARG_MIN")),
    Pack(("PACK",)),
    Unpack(("UNPACK",)),
    Gather(("GATHER",)),
    OneHot(("ONE_HOT",)),
)
