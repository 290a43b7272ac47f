"""Rules for ops that work along axes: the axes, in options or in a constant input, are renumbered.

If an op removes or adds an axis, the other axes must have the same order in both layouts. An axis that is computed
at run time cannot be renumbered; an op with such an axis therefore keeps its layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from compiler_plugin.transformations.layout_change.image_layout import (
    LayoutChange,
    layouts_without,
)
from compiler_plugin.transformations.layout_change.rule import (
    Edit,
    OpPlan,
    PortLayout,
    find_axes,
    known_shape,
    normal_axes,
)
from litert.model.builtin_options import get_builtin_option
from litert.model.graph import Op, Tensor


def _all(op: Op, axes: Sequence[int]) -> Sequence[int] | None:
    return axes or None


def _none(op: Op, axes: Sequence[int]) -> Sequence[int]:
    return ()


def _reduced(op: Op, axes: Sequence[int]) -> Sequence[int]:
    return () if get_builtin_option(op, "keep_dims") else sorted(set(axes))


def _gathered(op: Op, axes: Sequence[int]) -> Sequence[int] | None:
    """Returns the axis that GATHER removes: none with a vector of indices, the axis with a single index."""
    indices = op.inputs[1]
    if indices is None or len(indices.shape) > 1 or get_builtin_option(op, "batch_dims"):
        return None
    return () if indices.shape else axes


@dataclass(frozen=True)
class AlongAxes:
    """Rule for ops along axes: all inputs and outputs are permuted, and the axes are renumbered.

    Attributes:
      axes: Names of the options that are axes, or the index of the constant input that contains the axes.
      counted_in: Whether axis numbers count dimensions of the inputs or of the outputs.
      gone: Function that returns the axes that the op removes or adds; None if the op cannot change its layout.
      data: Index of the data input; None if all inputs are data.
      inputs: Number of inputs that the op must have; 0 for any number.
    """

    ops: Sequence[str]
    axes: Sequence[str] | int = ("axis",)
    counted_in: Literal["inputs", "outputs"] = "inputs"
    gone: Callable[[Op, Sequence[int]], Sequence[int] | None] = _none
    data: int | None = 0
    inputs: int = 0

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        if not op.inputs or not op.outputs or self.inputs not in (0, len(op.inputs)):
            return None
        if len(op.inputs) <= max(self.data or 0, self.axes if isinstance(self.axes, int) else 0):
            return None
        counted = op.inputs[self.data or 0] if self.counted_in == "inputs" else op.outputs[0]
        if counted is None:
            return None
        rank = len(counted.shape)
        if isinstance(self.axes, int):
            axes = find_axes(op.inputs[self.axes], rank)
        else:
            axes = normal_axes([get_builtin_option(op, name) for name in self.axes], rank)
        gone = None if axes is None else self.gone(op, axes)
        layouts = None if gone is None else layouts_without(change, rank, gone)
        if axes is None or layouts is None:
            return None
        numbers = [axis if layouts[0] is None else layouts[0].index(axis) for axis in axes]
        before, after = layouts if self.counted_in == "inputs" else layouts[::-1]
        inputs: list[PortLayout] = [
            before if self.data in (None, index) else None for index in range(len(op.inputs))
        ]
        if isinstance(self.axes, int):
            edit = Edit(constants={self.axes: numbers})
        else:
            edit = Edit(options=dict(zip(self.axes, numbers, strict=True)))
        return OpPlan(inputs, [after] * len(op.outputs), edit)


@dataclass(frozen=True)
class Squeeze:
    """Rule for SQUEEZE, which removes the given dimensions of size 1, or all dimensions of size 1."""

    ops: Sequence[str]

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        data = op.inputs[0] if len(op.inputs) == 1 else None
        if data is None or len(op.outputs) != 1:
            return None
        gone = self._find_gone(op, data)
        layouts = None if gone is None else layouts_without(change, len(data.shape), gone)
        if (
            gone is None
            or layouts is None
            or len(op.outputs[0].shape) != len(data.shape) - len(gone)
        ):
            return None
        numbers = gone if layouts[0] is None else [layouts[0].index(axis) for axis in gone]
        return OpPlan([layouts[0]], [layouts[1]], Edit(options={"squeeze_dims": sorted(numbers)}))

    def _find_gone(self, op: Op, data: Tensor) -> Sequence[int] | None:
        named = normal_axes(get_builtin_option(op, "squeeze_dims") or (), len(data.shape))
        ones = [axis for axis, size in enumerate(known_shape(data)) if size == 1]
        return None if named is None else sorted(set(named)) or ones


RULES = (
    AlongAxes(("CONCATENATION",), data=None, counted_in="outputs"),
    AlongAxes(("REVERSE_SEQUENCE",), axes=("seq_dim", "batch_dim")),
    AlongAxes(("SPLIT",), axes=0, data=1),
    AlongAxes(("SPLIT_V",), axes=2),
    AlongAxes(("CUMSUM", "REVERSE_V2"), axes=1),
    AlongAxes(("ARG_MAX", "ARG_MIN"), axes=1, gone=_all, inputs=2),
    AlongAxes(("PACK",), counted_in="outputs", gone=_all, data=None),
    AlongAxes(("UNPACK",), gone=_all),
    AlongAxes(("GATHER",), gone=_gathered, inputs=2),
    AlongAxes(("ONE_HOT",), counted_in="outputs", gone=_all),
    AlongAxes(("EXPAND_DIMS",), axes=1, counted_in="outputs", gone=_all, inputs=2),
    AlongAxes(
        ("MEAN", "SUM", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"),
        axes=1,
        gone=_reduced,
        inputs=2,
    ),
    Squeeze(("SQUEEZE",)),
)
