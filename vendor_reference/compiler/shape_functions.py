"""Shape functions, which compute the shape of an output from the shapes of inputs by formulas.

    func.func private @shape_of_Upscale(!shape.shape) -> !shape.shape
        attributes {IE.formulas = ["B", "F*2"], IE.input_shapes = [unit, array<i64: 4>]}

The arguments of a shape function are the run-time shapes of the layer's inputs; its attributes contain the fixed
shapes. The rank of a shape value determines the size of its buffer. The rank of a shape value is the rank of the
shape's tensor, or follows from the function that computes the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue

from litert.core.errors import LiteRtError
from litert.core.kernel_dims import kernel_dims
from litert.core.sizes import Size
from litert.core.status import Status
from vendor_reference.compiler.ir.shape_attributes import (
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    OUTPUT_PATTERNS,
    Shape,
    read_ports,
    read_shapes,
    shapes_attribute,
)
from vendor_reference.compiler.ir.types import ShapeType, shape_of
from vendor_reference.compiler.levels.ie import ActualShapeOfOp
from vendor_reference.compiler.levels.layer import (
    LayerOp,
    input_shapes_of,
    output_shapes_of,
)
from vendor_reference.compiler.work_items import read_formula

FORMULAS = "IE.formulas"
INPUT_SHAPES = "IE.input_shapes"


@dataclass(frozen=True, slots=True)
class ShapeFunction:
    """A shape function: a formula for each dimension, and the fixed shapes of the layer's inputs.

    For an input whose shape is an argument, the fixed shape is None.
    """

    formulas: tuple[str, ...]
    inputs: tuple[Shape | None, ...]

    def evaluate(self, passed: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
        """Computes the shape of the output from the shapes that are passed as arguments."""
        given = iter(passed)
        inputs = [next(given) if shape is None else shape for shape in self.inputs]
        dims = kernel_dims(inputs[0]) if inputs else (1, 1, 1, 1)
        return tuple(read_formula(text).resolve(dims, inputs) for text in self.formulas)


def make_shape_function(name: str, function: ShapeFunction) -> FuncOp:
    """Makes an IR function for a shape function."""
    count = sum(shape is None for shape in function.inputs)
    made = FuncOp.external(name, [ShapeType()] * count, [ShapeType()])
    made.attributes[FORMULAS] = ArrayAttr([StringAttr(text) for text in function.formulas])
    made.attributes[INPUT_SHAPES] = shapes_attribute(function.inputs)
    return made


def find_shape_function(function: FuncOp) -> ShapeFunction | None:
    """Reads a shape function from an IR function; returns None if the IR function is not a shape function."""
    formulas = function.attributes.get(FORMULAS)
    if formulas is None:
        return None
    held = function.attributes.get(INPUT_SHAPES)
    if not isinstance(formulas, ArrayAttr) or not isinstance(held, ArrayAttr):
        raise _error(function, formulas)
    texts = [text.data for text in formulas.data if isinstance(text, StringAttr)]
    inputs = read_shapes(function.attributes, INPUT_SHAPES, len(held.data))
    passed: Sequence[Attribute] = function.function_type.inputs.data
    if len(texts) != len(formulas.data) or inputs.count(None) > len(passed):
        raise _error(function, formulas)
    return ShapeFunction(tuple(texts), tuple(inputs))


def _error(function: FuncOp, found: object) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_ARGUMENT,
        f"attribute {FORMULAS} is {found}, which does not fit the function",
        f"function '{function.sym_name.data}'",
        f"Write {FORMULAS} as an array of strings, and write unit in {INPUT_SHAPES} for each shape that the "
        "function gets as an argument.",
    )


def find_shape_ranks(
    functions: Mapping[str, FuncOp], function: FuncOp, block: Block
) -> dict[SSAValue, int]:
    """Returns the ranks of shape values; a rank follows from the shape's tensor, or from its shape function."""
    ranks: dict[SSAValue, int] = {}
    for op in block.ops:
        if isinstance(op, ActualShapeOfOp):
            ranks[op.shape] = len(shape_of(op.source.type))
        elif isinstance(op, LayerOp):
            _add_ranks(ranks, op.inputs, input_shapes_of(op))
            _add_ranks(ranks, op.outputs, output_shapes_of(op))
        elif isinstance(op, CallOp):
            called = functions.get(op.callee.root_reference.data)
            if called is not None and (found := find_shape_function(called)):
                ranks[op.results[0]] = len(found.formulas)
            elif called is not None:
                layer = read_call(op, called)
                _add_ranks(ranks, layer.inputs, layer.input_shapes)
                _add_ranks(ranks, layer.outputs, layer.output_shapes)
        elif isinstance(op, ReturnOp):
            tensors, shapes = _split_shapes(op.arguments)
            patterns = read_shapes(function.attributes, OUTPUT_PATTERNS, len(tensors))
            ports = [i for i, pattern in enumerate(patterns) if pattern is not None]
            _add_ranks(ranks, tensors, dict(zip(ports, shapes, strict=False)))
    return ranks


class CalledLayer(NamedTuple):
    """The tensors that a call of a layer's function reads and returns, and the shape value of each tensor."""

    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    input_shapes: Mapping[int, SSAValue]
    output_shapes: Mapping[int, SSAValue]


def read_call(op: CallOp, function: FuncOp) -> CalledLayer:
    """Returns the tensors and shapes of a call.

    The operands are inputs, then shapes of inputs and outputs. The results are outputs, then shapes of outputs
    that the layer's kernel computes.
    """
    inputs, shapes = _split_shapes(op.arguments)
    outputs, own = _split_shapes(op.results)
    read = read_ports(function.attributes, DYNAMIC_INPUTS, 0)
    written = read_ports(function.attributes, DYNAMIC_OUTPUTS, 0)
    found = [*shapes[len(read) :], *own]
    by_input = dict(zip(read, shapes, strict=False))
    return CalledLayer(inputs, outputs, by_input, dict(zip(written, found, strict=False)))


def _split_shapes(values: Sequence[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
    """Separates tensors from the shapes that follow them."""
    tensors = [value for value in values if isinstance(value.type, TensorType)]
    return tensors, [value for value in values if isinstance(value.type, ShapeType)]


def _add_ranks(
    ranks: dict[SSAValue, int], tensors: Sequence[SSAValue], shapes: Mapping[int, SSAValue]
) -> None:
    for port, shape in shapes.items():
        ranks[shape] = len(shape_of(tensors[port].type))
