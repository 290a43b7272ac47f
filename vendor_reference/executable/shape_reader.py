"""Shapes in an executable's header are read, and checked: a run can then rely on their order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.core.checked_json import JsonNode
from litert.core.element_type import ElementType
from litert.core.sizes import Dimension, shapes_in
from litert.core.tensor_type import RankedTensorType
from vendor_reference.executable.executable import ArgumentKind, CpuTask, Function, Program
from vendor_reference.executable.format import ALIGNMENT
from vendor_reference.executable.shape_use import find_dimensions, find_needed, find_times
from vendor_reference.executable.shape_value import (
    DynamicOutput,
    ShapeKind,
    ShapeValue,
    format_shape,
)
from vendor_reference.executable.size_json import parse_size

_MOST_DIM = 2**31 - 1
_MAX_RANK = 16
_KINDS = [kind.value for kind in ShapeKind]


def read_shapes(
    node: JsonNode, inputs: Sequence[RankedTensorType], num_tasks: int, ddr_size: int
) -> list[ShapeValue]:
    """The shapes of a function.

    Raises:
      LiteRtError: the node's.
    """
    shapes: list[ShapeValue] = []
    for item in node.items():
        shape = _shape(item, shapes, num_tasks, ddr_size)
        if shape.kind is ShapeKind.INPUT:
            _check_input(item, shape, inputs)
        shapes.append(shape)
    return shapes


def read_dynamic_outputs(
    node: JsonNode, outputs: Sequence[RankedTensorType], shapes: Sequence[ShapeValue]
) -> list[DynamicOutput]:
    """Which outputs have which shapes.

    Raises:
      LiteRtError: the node's.
    """
    found: list[DynamicOutput] = []
    for item in node.items():
        output, holder, index = (part.integer(0, _MOST_DIM) for part in item.items(3, 3))
        if max(output, holder) >= len(outputs) or index >= len(shapes):
            raise item.error(
                f"shape {index} of output {output} in output {holder}: there are {len(shapes)} "
                f"shapes and {len(outputs)} outputs"
            )
        shape = shapes[index]
        if outputs[output].shape != shape.bound:
            raise item.error(f"output {output} is {outputs[output]}, its bound {shape.bound}")
        expected = RankedTensorType.of(ElementType.INT32, (len(shape.bound),))
        if outputs[holder] != expected:
            raise item.error(f"a shape in {outputs[holder]}, expected {expected}")
        found.append(DynamicOutput(output, holder, index))
    return found


def check_order(node: JsonNode, function: Function, programs: Sequence[Program]) -> None:
    """Each task knows what it needs when it starts.

    Raises:
      LiteRtError: the node's.
    """
    times = find_times(function.shapes)
    for index, task in enumerate(function.tasks):
        if isinstance(task, CpuTask):  # its shapes are all known
            continue
        holes = programs[task.program].holes
        for dimension in find_dimensions(task, holes):
            _check_dimension(node, dimension, function.shapes)
        for argument in task.arguments:
            if argument.kind is ArgumentKind.SHAPE and argument.index >= len(function.shapes):
                raise node.error(f"shape {argument.index} of {len(function.shapes)}")
        for needed in find_needed(index, task, holes, function.shapes):
            if times[needed] >= index:
                raise node.error(f"task {index} needs shape {needed} before it is known")


def _shape(
    node: JsonNode, before: Sequence[ShapeValue], num_tasks: int, ddr_size: int
) -> ShapeValue:
    fields = node.fields(("name", "kind", "pattern", "bound", "offset"), ("index", "sizes"))
    kind = ShapeKind(fields["kind"].text(_KINDS))
    wanted = "sizes" if kind is ShapeKind.COMPUTED else "index"
    if wanted not in fields or ("sizes" in fields) == ("index" in fields):
        raise node.error(f"a shape that is {kind.value} has '{wanted}'")
    pattern = tuple(n.integer(-1, _MOST_DIM) for n in fields["pattern"].items(1, _MAX_RANK))
    bound = tuple(n.integer(0, _MOST_DIM) for n in fields["bound"].items(1, _MAX_RANK))
    if len(pattern) != len(bound) or any(
        p not in (-1, b) for p, b in zip(pattern, bound, strict=True)
    ):
        raise fields["bound"].error(f"{format_shape(bound)} is no bound of {format_shape(pattern)}")
    if prod(bound) > 2**62:
        raise fields["bound"].error(f"{format_shape(bound)} is too large")
    offset = fields["offset"].integer(0, ddr_size)
    if offset % ALIGNMENT or offset + 4 * len(pattern) > ddr_size:
        raise node.error(f"{4 * len(pattern)} bytes at {offset} of {ddr_size} in DDR")
    sizes = tuple(parse_size(n) for n in fields["sizes"].items()) if "sizes" in fields else ()
    if kind is ShapeKind.COMPUTED and len(sizes) != len(pattern):
        raise fields["sizes"].error(f"{len(sizes)} sizes of {len(pattern)} dimensions")
    for dimension in (d for size in sizes for d in shapes_in(size)):
        _check_dimension(node, dimension, before)
    most = num_tasks - 1 if kind is ShapeKind.WRITTEN else _MOST_DIM
    index = fields["index"].integer(0, most) if "index" in fields else 0
    return ShapeValue(fields["name"].text(), kind, pattern, bound, offset, index, sizes)


def _check_input(node: JsonNode, shape: ShapeValue, inputs: Sequence[RankedTensorType]) -> None:
    if shape.index >= len(inputs):
        raise node.error(f"input {shape.index} of {len(inputs)}")
    if inputs[shape.index].shape != shape.bound:
        raise node.error(f"input {shape.index} is {inputs[shape.index]}, its bound {shape.bound}")


def _check_dimension(node: JsonNode, dimension: Dimension, shapes: Sequence[ShapeValue]) -> None:
    rank = len(shapes[dimension.shape].pattern) if dimension.shape < len(shapes) else 0
    if dimension.index >= rank:
        raise node.error(f"{dimension}, a dimension that is not known")
