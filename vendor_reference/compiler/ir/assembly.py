"""Parses and prints layer ops in the notation of the IR, which MLIR's standard formats do not cover.

%r = IE.Add(%a, %b)[%shape_of_a] {axis = 1 : i64} : tensor<4xf32>, tensor<4xf32>, !shape.shape -> tensor<4xf32>
IERT.Add(%a, %b, %r)[%shape_of_a] {axis = 1 : i64}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from vendor_reference.compiler.ir.types import ShapeType

TASKS = ("OCL", "CPP")
"""Kinds of tasks to which layers are lowered."""

_SEGMENTS = ("operandSegmentSizes", "resultSegmentSizes")


def parse_names(parser: Parser) -> list[UnresolvedOperand]:
    """Parses value names: `(%a, %b)`."""
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )


def parse_shape_names(parser: Parser) -> list[UnresolvedOperand]:
    """Parses names of shape values: `[%s, %t]`; returns an empty list without brackets."""
    square, parse = parser.Delimiter.SQUARE, parser.parse_unresolved_operand
    return parser.parse_optional_comma_separated_list(square, parse) or []


def parse_types(parser: Parser) -> list[Attribute]:
    """Parses types: `tensor<4xf32>, tensor<4xf32>`; returns an empty list before `->`."""
    first = parser.parse_optional_type()
    types: list[Attribute] = [] if first is None else [first]
    while types and parser.parse_optional_punctuation(",") is not None:
        types.append(parser.parse_type())
    return types


def resolve_operands(
    parser: Parser, names: Sequence[UnresolvedOperand], types: Sequence[Attribute], at: int
) -> Sequence[SSAValue]:
    """Finds the values of the given names, and checks their types.

    If several values all have the same tensor type, or all have the type `!shape.shape`, the type may be written
    once for all of them.
    """
    if 0 < len(types) < len(names):
        shapes = [t for t in types if isinstance(t, ShapeType)]
        tensors = [t for t in types if not isinstance(t, ShapeType)]
        if len(shapes) == 1:
            shapes *= len(names) - len(tensors)
        elif len(tensors) == 1:
            tensors *= len(names) - len(shapes)
        types = [*tensors, *shapes]
    return parser.resolve_operands(names, types, at)


class LayerText(NamedTuple):
    """The parsed parts of a layer on tensors.

    `outputs` holds the types of the output tensors, without the types of shapes.
    """

    inputs: Sequence[SSAValue]
    input_shapes: Sequence[SSAValue]
    output_shapes: Sequence[SSAValue]
    attributes: dict[str, Attribute]
    outputs: Sequence[Attribute]
    num_result_shapes: int


def parse_layer(parser: Parser) -> LayerText:
    """Parses `(%a)[%shape_of_a][%shape_of_r] {axis = 1 : i64} : types -> types`."""
    names, input_names = parse_names(parser), parse_shape_names(parser)
    output_names = parse_shape_names(parser)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    at = parser.pos
    types = parse_types(parser)
    parser.parse_punctuation("->")
    results = parse_types(parser)
    operands = resolve_operands(parser, [*names, *input_names, *output_names], types, at)
    first, second = len(names), len(names) + len(input_names)
    outputs = [t for t in results if not isinstance(t, ShapeType)]
    if outputs != results[: len(outputs)]:
        parser.raise_error(
            "a shape comes before a tensor in the results: write all tensors first, and then their shapes",
            at,
        )
    return LayerText(
        operands[:first],
        operands[first:second],
        operands[second:],
        attributes,
        outputs,
        len(results) - len(outputs),
    )


def print_layer(
    printer: Printer,
    inputs: Sequence[SSAValue],
    input_shapes: Sequence[SSAValue],
    output_shapes: Sequence[SSAValue],
    attributes: Mapping[str, Attribute],
    results: Sequence[SSAValue],
) -> None:
    """Prints a layer in the notation that `parse_layer` reads."""
    print_values(printer, inputs)
    if input_shapes or output_shapes:
        print_values(printer, input_shapes, "[]")
    print_shapes(printer, output_shapes)
    print_attributes(printer, attributes)
    printer.print_string(" : ")
    print_types(printer, [v.type for v in (*inputs, *input_shapes, *output_shapes)])
    printer.print_string(" -> ")
    print_types(printer, [value.type for value in results])


def parse_operands(parser: Parser) -> list[SSAValue]:
    """Parses `(%a, %b)` without types; the values must already be defined."""
    return [find_value(parser, name) for name in parse_names(parser)]


def parse_shapes(parser: Parser) -> list[SSAValue]:
    """Parses `[%s, %t]` without types; returns an empty list without brackets."""
    return [find_value(parser, name) for name in parse_shape_names(parser)]


def find_value(parser: Parser, name: UnresolvedOperand) -> SSAValue:
    """Returns the value that was defined earlier under a name."""
    values = parser.ssa_values.get(name.operand_name)
    if values is None or name.index >= len(values):
        parser.raise_error(f"%{name.operand_name} is not defined before its use", name.span)
    return values[name.index]


def print_values(printer: Printer, values: Sequence[SSAValue], brackets: str = "()") -> None:
    """Prints values in parentheses, `(%a, %b)`, or in other brackets."""
    printer.print_string(brackets[0])
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(brackets[1])


def print_shapes(printer: Printer, shapes: Sequence[SSAValue]) -> None:
    """Prints shapes as `[%s, %t]`; prints nothing for an empty list."""
    if shapes:
        print_values(printer, shapes, "[]")


def print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    """Prints types as `tensor<4xf32>, tensor<4xf32>`."""
    printer.print_list(types, printer.print_attribute)


def print_attributes(printer: Printer, attributes: Mapping[str, Attribute]) -> None:
    """Prints attributes as ` {axis = 1 : i64}`; prints nothing without attributes."""
    shown = {name: value for name, value in attributes.items() if name not in _SEGMENTS}
    printer.print_op_attributes(shown)


@lru_cache(maxsize=1024)
def number(value: int) -> IntegerAttr:
    """Converts a number to an integer attribute."""
    return IntegerAttr(value, i64)


def take_number(
    parser: Parser, attributes: dict[str, Attribute], name: str, default: int, most: int
) -> int:
    """Removes an attribute from the parsed attributes, and returns its value, a number from 0 to `most`."""
    attribute = attributes.pop(name, None)
    if attribute is None:
        return default
    if not isinstance(attribute, IntegerAttr) or not 0 <= attribute.value.data <= most:
        parser.raise_error(
            f"attribute {name} is {attribute}, but must be a number from 0 to {most}"
        )
    return int(attribute.value.data)


def parse_binary(parser: Parser) -> tuple[str, SSAValue]:
    """Parses `VPUIP.OCL from %code`: the kind of a layer's task, and the value that holds precompiled code."""
    at = parser.pos
    name = parser.parse_identifier(context_msg=" for a kind of task")
    if name not in [f"VPUIP.{task}" for task in TASKS]:
        parser.raise_error(
            f"the layer has type {name}, but must have type VPUIP.{' or VPUIP.'.join(TASKS)}", at
        )
    parser.parse_keyword("from")
    code = find_value(parser, parser.parse_unresolved_operand())
    return name.removeprefix("VPUIP."), code


def print_binary(printer: Printer, task: str, code: SSAValue) -> None:
    """Prints ` VPUIP.OCL from %code `."""
    printer.print_string(f" VPUIP.{task} from ")
    printer.print_ssa_value(code)
    printer.print_string(" ")
