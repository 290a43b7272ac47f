"""How many dimensions each shape value of a function has: what its buffer takes, which its type does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue

from vendor_reference.compiler.ie.layer_op import (
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    LayerOp,
    read_ports,
)
from vendor_reference.compiler.ie.ops import ActualShapeOfOp
from vendor_reference.compiler.ir.shape import ShapeType
from vendor_reference.compiler.ir.shape_attributes import OUTPUT_PATTERNS, read_shapes
from vendor_reference.compiler.ir.types import shape_of
from vendor_reference.compiler.shape_functions import find_shape_function


def find_shape_ranks(
    functions: Mapping[str, FuncOp], function: FuncOp, block: Block
) -> dict[SSAValue, int]:
    """Ranks by what a shape belongs to, or is computed by."""
    ranks: dict[SSAValue, int] = {}
    for op in block.ops:
        if isinstance(op, ActualShapeOfOp):
            ranks[op.shape] = len(shape_of(op.source.type))
        elif isinstance(op, LayerOp):
            _of_ports(ranks, op.input_shapes, op.inputs, op.dynamic_inputs())
            shapes = [*op.output_shapes, *op.result_shapes]
            _of_ports(ranks, shapes, op.outputs, op.dynamic_outputs())
        elif isinstance(op, CallOp):
            _of_call(ranks, op, functions.get(op.callee.root_reference.data))
        elif isinstance(op, ReturnOp):
            tensors, shapes = split_shapes(op.arguments)
            patterns = read_shapes(function.attributes, OUTPUT_PATTERNS, len(tensors))
            ports = [i for i, pattern in enumerate(patterns) if pattern is not None]
            _of_ports(ranks, shapes, tensors, ports)
    return ranks


def split_shapes(values: Sequence[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
    """Tensors, and the shapes behind them."""
    tensors = [value for value in values if isinstance(value.type, TensorType)]
    return tensors, [value for value in values if isinstance(value.type, ShapeType)]


def _of_call(ranks: dict[SSAValue, int], op: CallOp, function: FuncOp | None) -> None:
    if function is None:
        return
    found = find_shape_function(function)
    if found is not None:
        ranks[op.results[0]] = len(found.formulas)
        return
    inputs, input_shapes = split_shapes(op.arguments)
    outputs, own = split_shapes(op.results)
    ports = read_ports(function.attributes, DYNAMIC_INPUTS, 0)
    _of_ports(ranks, input_shapes[: len(ports)], inputs, ports)
    shapes = [*input_shapes[len(ports) :], *own]
    _of_ports(ranks, shapes, outputs, read_ports(function.attributes, DYNAMIC_OUTPUTS, 0))


def _of_ports(
    ranks: dict[SSAValue, int],
    shapes: Sequence[SSAValue],
    tensors: Sequence[SSAValue],
    ports: Sequence[int],
) -> None:
    for shape, port in zip(shapes, ports, strict=False):
        ranks[shape] = len(shape_of(tensors[port].type))
