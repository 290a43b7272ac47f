"""Parses older notations that differ from current MLIR; the printer writes current MLIR.

func @main(%x: tensor<4xf16>) -> tensor<4xf16>, !shape.type {
%s = call @calc_shape(%t) : !shape.shape -> !shape.shape
call @calc_shape(%a, %b)
%b = alloc : memref<4xf16>
dealloc %b
return %x, %s
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.memref import AllocOp, DeallocOp
from xdsl.ir import Attribute, Operation, Region
from xdsl.parser import Parser

from vendor_reference.compiler.ir.assembly import (
    find_value,
    parse_names,
    parse_types,
    resolve_operands,
)
from vendor_reference.compiler.ir.edits import allocate, call, release


@dataclass(frozen=True, slots=True)
class Reading:
    """A parser for an op in a notation that xDSL does not parse.

    xDSL's parser treats this object as a class of ops.

    Attributes:
      op: Class of the op for MLIR's generic form, `"func.call"(%x) : ...`; None if the op has no generic form.
    """

    op: type[Operation] | None
    parse: Callable[[Any], Operation]

    def dialect_name(self) -> str:
        """Returns the dialect of ops that are written without a prefix in this op's regions."""
        return "IE" if self.op is None else self.op.dialect_name()


def _parse_function(parser: Parser) -> FuncOp:
    """Parses a function whose results need no parentheses, and whose arguments have no attributes."""
    visibility = parser.parse_optional_visibility_keyword()
    name = parser.parse_symbol_name().data

    def argument() -> Parser.Argument | Attribute:
        return parser.parse_optional_argument() or parser.parse_type()

    arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    named = [a for a in arguments if isinstance(a, Parser.Argument)]
    if len(named) not in (0, len(arguments)):
        parser.raise_error("some arguments have names, and others do not")
    outputs = _parse_results(parser) if parser.parse_optional_punctuation("->") else []
    attributes = parser.parse_optional_attr_dict_with_keyword(("sym_name", "function_type"))
    region = parser.parse_optional_region(named or None)
    types = [a.type if isinstance(a, Parser.Argument) else a for a in arguments]
    function = FuncOp(name, (types, outputs), region or Region(), visibility)
    if attributes is not None:
        function.attributes.update(attributes.data)
    return function


def _parse_call(parser: Parser) -> CallOp:
    """Parses a call whose types need no parentheses; a call on buffers alone needs no types."""
    callee, names = SymbolRefAttr(parser.parse_symbol_name()), parse_names(parser)
    attributes = parser.parse_optional_attr_dict()
    if parser.parse_optional_punctuation(":") is None:
        made = call(callee, [find_value(parser, name) for name in names], [])
    else:
        at = parser.pos
        types = _parse_results(parser)
        parser.parse_punctuation("->")
        made = call(callee, resolve_operands(parser, names, types, at), _parse_results(parser))
    made.attributes.update(attributes)
    return made


def _parse_return(parser: Parser) -> ReturnOp:
    """Parses a return; types may follow the values, as in MLIR."""
    attributes = parser.parse_optional_attr_dict()
    names = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    at = parser.pos
    if names and parser.parse_optional_punctuation(":"):
        made = ReturnOp(*resolve_operands(parser, names, parse_types(parser), at))
    else:
        made = ReturnOp(*(find_value(parser, name) for name in names or ()))
    made.attributes.update(attributes)
    return made


def _parse_alloc(parser: Parser) -> AllocOp:
    if parser.parse_optional_punctuation("("):
        parser.parse_punctuation(")")
    parser.parse_punctuation(":")
    return allocate(parser.parse_type())


def _parse_dealloc(parser: Parser) -> DeallocOp:
    buffer = find_value(parser, parser.parse_unresolved_operand())
    at = parser.pos
    if parser.parse_optional_punctuation(":") and parser.parse_type() != buffer.type:
        parser.raise_error(f"the type after the colon is not the buffer's type, {buffer.type}", at)
    return release(buffer)


def _parse_results(parser: Parser) -> Sequence[Attribute]:
    """Parses `(a, b)` or `a, b`."""
    paren, parse = parser.Delimiter.PAREN, parser.parse_type
    types = parser.parse_optional_comma_separated_list(paren, parse)
    return parse_types(parser) if types is None else types


_CALL = Reading(CallOp, _parse_call)
_RETURN = Reading(ReturnOp, _parse_return)

READINGS = {
    "func": Reading(FuncOp, _parse_function),
    "call": _CALL,
    "func.call": _CALL,
    "return": _RETURN,
    "func.return": _RETURN,
    "alloc": Reading(AllocOp, _parse_alloc),
    "dealloc": Reading(DeallocOp, _parse_dealloc),
}
"""The parser for each op, by the op's name in the text."""
