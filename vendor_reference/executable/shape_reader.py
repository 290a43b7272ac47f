"""Shapes in an executable's header are read, and checked: a run can then rely on their order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.core.checked_json import JsonNode
from litert.core.element_type import ElementType
from litert.core.sizes import Dimension, Size, shapes_in
from litert.core.tensor_type import RankedTensorType
from vendor_reference.executable.executable import (
    ArgumentKind,
    CpuTask,
    Function,
    KernelTask,
    Program,
)
from vendor_reference.executable.format import ALIGNMENT
from vendor_reference.executable.shape_use import (
    find_dimensions,
    find_needed,
    find_sources,
    find_times,
)
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
    for task in function.tasks:
        if isinstance(task, CpuTask):
            _check_cpu_task(node, task, function.shapes)
    for index, shape in enumerate(function.shapes):
        if shape.kind is ShapeKind.ASKED:
            _check_asked(node, index, function)
    times = find_times(function)
    for index, task in enumerate(function.tasks):
        holes: Sequence[Size] = ()
        if isinstance(task, KernelTask):
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
    optional = ("index", "output", "sizes")
    fields = node.fields(("name", "kind", "pattern", "bound", "offset"), optional)
    kind = ShapeKind(fields["kind"].text(_KINDS))
    wanted = "sizes" if kind is ShapeKind.COMPUTED else "index"
    if wanted not in fields or ("sizes" in fields) == ("index" in fields):
        raise node.error(f"a shape that is {kind.value} has '{wanted}'")
    if ("output" in fields) != (kind is ShapeKind.ASKED):
        raise node.error(f"a shape that is {kind.value}, and an output")
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
    most = num_tasks - 1 if kind in (ShapeKind.WRITTEN, ShapeKind.ASKED) else _MOST_DIM
    index = fields["index"].integer(0, most) if "index" in fields else 0
    output = fields["output"].integer(0, _MOST_DIM) if "output" in fields else 0
    return ShapeValue(fields["name"].text(), kind, pattern, bound, offset, index, sizes, output)


def _check_input(node: JsonNode, shape: ShapeValue, inputs: Sequence[RankedTensorType]) -> None:
    if shape.index >= len(inputs):
        raise node.error(f"input {shape.index} of {len(inputs)}")
    if inputs[shape.index].shape != shape.bound:
        raise node.error(f"input {shape.index} is {inputs[shape.index]}, its bound {shape.bound}")


def _check_cpu_task(node: JsonNode, task: CpuTask, shapes: Sequence[ShapeValue]) -> None:
    """Memory that is there for the largest shapes is enough."""
    tensors = zip((*task.inputs, *task.outputs), (*task.op.inputs, *task.op.outputs), strict=True)
    for place, operand in tensors:
        if place is None or operand is None or place.shape is None:
            continue
        if place.shape >= len(shapes):
            raise node.error(f"shape {place.shape} of {len(shapes)}")
        shape = shapes[place.shape]
        if shape.bound != operand.tensor_type.shape:
            raise node.error(f"a tensor {operand.tensor_type}, its bound {shape.bound}")
        if place.strides or place.offset:
            raise node.error("strides of a tensor whose shape a run tells")
        if task.config.dynamic_batch and -1 in shape.pattern[1:]:
            raise node.error(f"a dynamic batch of {format_shape(shape.pattern)}")


def _check_asked(node: JsonNode, index: int, function: Function) -> None:
    """A shape that a library says is of an output of its task, and comes behind those of the inputs."""
    shape = function.shapes[index]
    task = function.tasks[shape.index]
    if not isinstance(task, CpuTask) or shape.output >= len(task.outputs):
        raise node.error(f"shape {index} is of output {shape.output} of task {shape.index}")
    if task.outputs[shape.output].shape != index:
        raise node.error(f"shape {index} is not that of its output")
    for source in find_sources(shape, function.tasks):
        if source >= index:
            raise node.error(f"shape {index} is found of shape {source}, which comes behind it")


def _check_dimension(node: JsonNode, dimension: Dimension, shapes: Sequence[ShapeValue]) -> None:
    rank = len(shapes[dimension.shape].pattern) if dimension.shape < len(shapes) else 0
    if dimension.index >= rank:
        raise node.error(f"{dimension}, a dimension that is not known")
