"""Determines which shapes a task needs before it starts, and after which task each shape is known."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.sizes import Dimension, Size, shapes_in
from vendor_reference.executable.executable import (
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
    LayerTask,
    ShapeKind,
    ShapeValue,
    Task,
)

BEFORE_ALL = -1
"""Value in place of a task index, for a shape that is known before the first task."""


def find_sources(shape: ShapeValue, tasks: Sequence[Task]) -> Sequence[int]:
    """Lists the indices of the shapes from which a shape is computed."""
    if shape.kind is ShapeKind.ASKED:
        task = tasks[shape.index]
        assert isinstance(task, CpuTask)
        return task.input_shapes
    return [d.shape for size in shape.sizes for d in shapes_in(size)]


def find_times(function: Function) -> list[int]:
    """Returns for each shape the index of the task after which the shape is known.

    `BEFORE_ALL` stands for the time before the first task.
    """
    times: list[int] = []
    for shape in function.shapes:
        if shape.kind is ShapeKind.WRITTEN:
            times.append(shape.index)
        else:
            used = find_sources(shape, function.tasks)
            times.append(max((times[index] for index in used), default=BEFORE_ALL))
    return times


def find_written(task: int, shapes: Sequence[ShapeValue]) -> Sequence[int]:
    """Lists the indices of the shapes that a task writes."""
    return [i for i, s in enumerate(shapes) if s.kind is ShapeKind.WRITTEN and s.index == task]


def find_dimensions(task: KernelTask | LayerTask, holes: Sequence[Size]) -> Sequence[Dimension]:
    """Lists the dynamic dimensions on which a task's work sizes and its program's text depend."""
    if isinstance(task, LayerTask):
        sizes = [word for command in task.commands for word in command.words]
    else:
        sizes = [*task.global_size, *(task.local_size or ()), *holes]
    return list(dict.fromkeys(d for size in sizes for d in shapes_in(size)))


def find_needed(
    index: int, task: Task, holes: Sequence[Size], shapes: Sequence[ShapeValue]
) -> Sequence[int]:
    """Lists the indices of the shapes that must be known and checked before a task starts."""
    if isinstance(task, CpuTask):
        return sorted(set(task.shapes))
    read = {a.index for a in task.arguments if a.kind is ArgumentKind.SHAPE}
    read.difference_update(find_written(index, shapes))
    return sorted(read.union(d.shape for d in find_dimensions(task, holes)))
