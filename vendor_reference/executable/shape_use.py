"""Which shapes a task must know before it starts, and from which task on a shape is known."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.sizes import Dimension, Size, shapes_in
from vendor_reference.executable.executable import ArgumentKind, KernelTask
from vendor_reference.executable.shape_value import ShapeKind, ShapeValue

BEFORE_ALL = -1
"""A shape that is known before the first task."""


def find_times(shapes: Sequence[ShapeValue]) -> list[int]:
    """For each shape the task after which it is known; `BEFORE_ALL`, if a run can begin with it."""
    times: list[int] = []
    for shape in shapes:
        if shape.kind is ShapeKind.WRITTEN:
            times.append(shape.index)
        else:
            used = [d for size in shape.sizes for d in shapes_in(size)]
            times.append(max((times[d.shape] for d in used), default=BEFORE_ALL))
    return times


def find_written(task: int, shapes: Sequence[ShapeValue]) -> Sequence[int]:
    """The shapes that a task writes."""
    return [i for i, s in enumerate(shapes) if s.kind is ShapeKind.WRITTEN and s.index == task]


def find_dimensions(task: KernelTask, holes: Sequence[Size]) -> Sequence[Dimension]:
    """The dimensions that a task's sizes and its program's text depend on."""
    sizes = (*task.global_size, *(task.local_size or ()), *holes)
    return list(dict.fromkeys(d for size in sizes for d in shapes_in(size)))


def find_needed(
    index: int, task: KernelTask, holes: Sequence[Size], shapes: Sequence[ShapeValue]
) -> Sequence[int]:
    """The shapes that must be known, and have been checked, before a task starts."""
    read = {a.index for a in task.arguments if a.kind is ArgumentKind.SHAPE}
    read.difference_update(find_written(index, shapes))
    return sorted(read.union(d.shape for d in find_dimensions(task, holes)))
