"""Functions of shapes: they find an output's shape from the shapes of inputs, by formulas.

    func.func private @shape_of_Upscale(!shape.shape) -> !shape.shape
        attributes {IE.formulas = ["B", "F*2"], IE.input_shapes = [unit, array<i64: 4>]}

The arguments are the run-time shapes of the layer's inputs; the function itself holds the fixed
shapes. The rank of a shape value, which decides the size of its buffer, follows from the tensor of
the shape, or from the function that computes the shape.
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
    """A formula for each dimension of a shape.

    And the layer's inputs, None for an input whose shape is passed.
    """

    formulas: tuple[str, ...]
    inputs: tuple[Shape | None, ...]

    def evaluate(self, passed: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
        """Returns the result's shape for the shapes that are passed."""
        given = iter(passed)
        inputs = [next(given) if shape is None else shape for shape in self.inputs]
        dims = kernel_dims(inputs[0]) if inputs else (1, 1, 1, 1)
        return tuple(read_formula(text).resolve(dims, inputs) for text in self.formulas)


def make_shape_function(name: str, function: ShapeFunction) -> FuncOp:
    """Returns the function in the IR."""
    count = sum(shape is None for shape in function.inputs)
    made = FuncOp.external(name, [ShapeType()] * count, [ShapeType()])
    made.attributes[FORMULAS] = ArrayAttr([StringAttr(text) for text in function.formulas])
    made.attributes[INPUT_SHAPES] = shapes_attribute(function.inputs)
    return made


def find_shape_function(function: FuncOp) -> ShapeFunction | None:
    """Reads a shape function from a function in the IR; None for any other function."""
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
        f"{FORMULAS} is {found}",
        f"function '{function.sym_name.data}'",
        f"Formulas are texts, and {INPUT_SHAPES} has unit for each shape that is passed.",
    )


def find_shape_ranks(
    functions: Mapping[str, FuncOp], function: FuncOp, block: Block
) -> dict[SSAValue, int]:
    """Returns the ranks of shape values, from the tensor of each shape, or from the function that computes it."""
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
    """The tensors that a call of a layer's function reads and makes; shapes are keyed by their tensors."""

    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    input_shapes: Mapping[int, SSAValue]
    output_shapes: Mapping[int, SSAValue]


def read_call(op: CallOp, function: FuncOp) -> CalledLayer:
    """Reads a call on tensors: operands are inputs, then shapes of inputs and outputs; results are outputs.

    Shapes of outputs that the layer's kernel finds follow these.
    """
    inputs, shapes = _split_shapes(op.arguments)
    outputs, own = _split_shapes(op.results)
    read = read_ports(function.attributes, DYNAMIC_INPUTS, 0)
    written = read_ports(function.attributes, DYNAMIC_OUTPUTS, 0)
    found = [*shapes[len(read) :], *own]
    by_input = dict(zip(read, shapes, strict=False))
    return CalledLayer(inputs, outputs, by_input, dict(zip(written, found, strict=False)))


def _split_shapes(values: Sequence[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
    """Separates tensors from the shapes behind them."""
    tensors = [value for value in values if isinstance(value.type, TensorType)]
    return tensors, [value for value in values if isinstance(value.type, ShapeType)]


def _add_ranks(
    ranks: dict[SSAValue, int], tensors: Sequence[SSAValue], shapes: Mapping[int, SSAValue]
) -> None:
    for port, shape in shapes.items():
        ranks[shape] = len(shape_of(tensors[port].type))
