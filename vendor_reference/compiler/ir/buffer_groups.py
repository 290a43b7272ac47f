"""Parses and prints the operands of layers on buffers.

    (%a, %b, %r)[%shape_of_a, %shape_of_b, %shape_of_r] {axis = 1 : i64}

The last operand is the output, unless the attribute `num_outputs` gives another number of outputs. `num_scratch`
temporary buffers follow the outputs. The first shapes in brackets belong to inputs. There is one such shape for
each input, unless the attribute `num_input_shapes` gives another number. The other shapes belong to outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from vendor_reference.compiler.ir.assembly import (
    number,
    parse_operands,
    parse_shapes,
    print_attributes,
    print_shapes,
    print_values,
    take_number,
)

_NUM_OUTPUTS = "num_outputs"
_NUM_SCRATCH = "num_scratch"
_NUM_INPUT_SHAPES = "num_input_shapes"


@dataclass(frozen=True, slots=True)
class BufferGroups:
    """The operands of a layer on buffers, and the shape values of inputs and outputs with run-time shapes."""

    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    scratch: Sequence[SSAValue] = ()
    input_shapes: Sequence[SSAValue] = ()
    output_shapes: Sequence[SSAValue] = ()


def parse_groups(parser: Parser) -> tuple[BufferGroups, Mapping[str, Attribute]]:
    """Parses operands, and the attributes that say which operands are inputs, outputs and temporary buffers."""
    buffers = parse_operands(parser)
    shapes = parse_shapes(parser)
    attributes = parser.parse_optional_attr_dict()
    rest = len(buffers) - take_number(parser, attributes, _NUM_SCRATCH, 0, len(buffers))
    num_inputs = rest - take_number(parser, attributes, _NUM_OUTPUTS, min(1, rest), rest)
    most = len(shapes)
    num_shapes = take_number(parser, attributes, _NUM_INPUT_SHAPES, min(num_inputs, most), most)
    groups = BufferGroups(
        buffers[:num_inputs],
        buffers[num_inputs:rest],
        buffers[rest:],
        shapes[:num_shapes],
        shapes[num_shapes:],
    )
    return groups, attributes


def print_groups(
    printer: Printer, groups: BufferGroups, attributes: Mapping[str, Attribute]
) -> None:
    """Prints operands in the format that `parse_groups` reads."""
    shapes = [*groups.input_shapes, *groups.output_shapes]
    print_values(printer, [*groups.inputs, *groups.outputs, *groups.scratch])
    print_shapes(printer, shapes)
    counts: dict[str, Attribute] = {}
    if len(groups.outputs) != 1:
        counts[_NUM_OUTPUTS] = number(len(groups.outputs))
    if groups.scratch:
        counts[_NUM_SCRATCH] = number(len(groups.scratch))
    if len(groups.input_shapes) != min(len(groups.inputs), len(shapes)):
        counts[_NUM_INPUT_SHAPES] = number(len(groups.input_shapes))
    print_attributes(printer, {**attributes, **counts})
