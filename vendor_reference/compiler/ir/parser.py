"""Extends xDSL's parser for the IR levels by older notations, limits for the text, and positions of ops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    MemRefType,
    ModuleOp,
    ShapedType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Input, Span

from litert.core.errors import LiteRtError
from litert.core.quoting import name_text
from litert.core.status import Status
from vendor_reference.compiler.ir.declared_ops import (
    DECLARE,
    DeclaredFunction,
    DeclaredOp,
    declared_functions,
    find_declared_name,
    parse_declared_op,
    settle_declared_types,
)
from vendor_reference.compiler.ir.names import SymbolNames, functions_of
from vendor_reference.compiler.ir.readings import READINGS, Reading
from vendor_reference.compiler.ir.text_bounds import Expansion, find_type_excess

_FIRST_OPERAND = re.compile(r"\(\s*%([\w$.-]+)")


class TextParser(Parser):
    """xDSL's parser, which here also records the positions of ops and rejects constants that would exhaust memory.

    Ops outside of functions become the body of a function `@main`. Values that no op defines become arguments of
    `@main`, and tensors that no op reads become results.
    """

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, text, name)
        self._input = Input(text, name)
        self._in_constant = False
        self._expansion = Expansion(len(text))
        self._starts: dict[Operation, int] = {}
        self._depth = 0
        self._op_start = 0
        self._loose: list[Operation] = []
        self._declared: list[DeclaredOp] = []
        self._free: dict[str, SSAValue] = {}

    def place(self) -> str:
        """Returns the parser's position as `file:line:column`."""
        return place_of(self._span())

    def line(self) -> str:
        """Returns the line at the parser's position."""
        return text_line(self._span())

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        module = super().parse_module(allow_implicit_module)
        if self._loose:
            function = self._function_of_loose(SymbolNames(functions_of(module)).new("main"))
            module.body.block.add_op(function)
            self._starts[function] = self._starts[self._loose[0]]
        return module

    def _function_of_loose(self, name: str) -> FuncOp:
        block = Block(arg_types=[value.type for value in self._free.values()])
        for argument, (free_name, value) in zip(block.args, self._free.items(), strict=True):
            argument.name_hint = free_name if Block.is_valid_name(free_name) else None
            value.replace_all_uses_with(argument)
        for op in self._loose:
            op.detach()  # type: ignore[no-untyped-call]
            block.add_op(op)
        if not isinstance(block.last_op, ReturnOp):
            made = [result for op in self._loose for result in op.results]
            unread = [r for r in made if not r.uses and not isinstance(r.type, MemRefType)]
            block.add_op(ReturnOp(*unread))
        assert block.last_op is not None
        return FuncOp(name, (block.arg_types, block.last_op.operand_types), Region(block))

    def parse_operation(self) -> Operation:
        start = self._op_start = self.pos
        self._depth += 1
        op = super().parse_operation()
        self._depth -= 1
        self._starts[op] = start
        if not self._depth:
            self._end_outer(op)
        return op

    def _end_outer(self, op: Operation) -> None:
        """Converts values that ops outside of functions read, and that no op defines, to arguments.

        Ops in a function have no such values.
        """
        is_loose = not isinstance(op, (FuncOp, ModuleOp))
        for name, found in self.forward_ssa_references.items():
            if not is_loose or found.keys() != {0}:
                self.raise_error(f"the value %{name} is used but not defined")
            self.ssa_values[name] = (found[0],)
            self._free[name] = found[0]
        self.forward_ssa_references.clear()
        if is_loose:
            self._loose.append(op)

    def parse_optional_region(
        self, arguments: Sequence[Parser.Argument] | None = None
    ) -> Region | None:
        if self._depth > 1:
            return super().parse_optional_region(arguments)
        outer, self.ssa_values = self.ssa_values, {}  # a function cannot see values outside it
        region = super().parse_optional_region(arguments)
        self.ssa_values = outer
        return region

    def _get_op_by_name(self, name: str) -> Any:
        if name.startswith("IE.") and self._reads_buffers():
            name = f"IERT.{name.removeprefix('IE.')}"
        if name in READINGS:
            return READINGS[name]
        symbol, stack = find_declared_name(name), self._parser_state.dialect_stack
        if symbol is None or self.ctx.get_optional_op(name, dialect_stack=stack) is not None:
            return super()._get_op_by_name(name)
        return Reading(None, partial(TextParser._parse_declared, name=name, symbol=symbol))

    def _parse_declared(self, name: str, symbol: str) -> CallOp:
        op = parse_declared_op(self, name, symbol, self._op_start)
        self._declared.append(op)
        return op.call

    def settle_declared(self, module: ModuleOp) -> None:
        """Converts declared ops, which the library does not have, to calls of the functions that declare them.

        Raises:
          LiteRtError: INVALID_ARGUMENT, with the op's position, if no function declares an op, or the function
            does not match the op.
        """
        functions = functions_of(module)
        known: dict[str, DeclaredFunction] = {}
        for op in self._declared:
            symbol = op.call.callee.root_reference.data
            function = functions.get(symbol)
            if function is None or not function.is_declaration:
                what = (
                    f"op '{symbol}' is neither in the vendor's library of builtin ops nor declared by a function "
                    "of the IR text"
                )
                raise self._error_at(op.start, what, DECLARE.format(symbol))
            if symbol not in known:
                known[symbol] = DeclaredFunction.of(function)
            try:
                op.settle(known[symbol])
            except VerifyException as error:
                raise self._error_at(op.start, f"op '{symbol}': {error}") from error
        for symbol, declared in declared_functions(module).items():
            name = f"IE.{symbol}"
            fault = ""
            if self.ctx.get_optional_op(name) is not None:
                fault = "the vendor's library of builtin ops has an op with this name"
            elif find_declared_name(name) is None:
                fault = "this name cannot be an op's name"
            if fault:
                what = f"function '{name}' cannot declare an op: {fault}"
                raise self._error_at(self._starts[declared.function], what, "Rename the function.")
        if self._declared:
            settle_declared_types(module)

    def _error_at(self, start: int, what: str, hint: str = "") -> LiteRtError:
        return text_error(what, Span(start, start, self._input), hint)

    def _reads_buffers(self) -> bool:
        """Returns whether the op whose name was just parsed is on buffers.

        If so, the op is at level IERT, even if its name begins with IE.
        """
        first = _FIRST_OPERAND.match(self._input.content, self.pos)
        values = self.ssa_values.get(first[1], ()) if first else ()
        return any(isinstance(value.type, MemRefType) for value in values)

    def _parse_generic_operation(self, op_type: Any) -> Operation:
        if not isinstance(op_type, Reading):
            return super()._parse_generic_operation(op_type)
        if op_type.op is None:
            self.raise_error(
                "the vendor's library of builtin ops does not have this op; if a function declares the op, write "
                "the op without quotes"
            )
        return super()._parse_generic_operation(op_type.op)

    def places(self) -> dict[Operation, str]:
        """Returns the position of each op in the text, as `file:line:column`."""
        text, name = self._input.content, self._input.name
        places, line, last = {}, 1, 0
        for op, start in sorted(self._starts.items(), key=itemgetter(1)):
            line += text.count("\n", last, start)
            last = start
            places[op] = f"{name}:{line}:{start - text.rfind(chr(10), 0, start)}"
        return places

    def _parse_alias_def(self) -> None:
        super()._parse_alias_def()  # type: ignore[no-untyped-call]
        self._refuse(self._expansion.define(next(reversed(self.attribute_aliases.values()))))

    def _parse_extended_type_or_attribute(self, name: str, is_type: Any) -> Any:
        attribute = super()._parse_extended_type_or_attribute(name, is_type)
        self._refuse(self._expansion.use(attribute))
        return attribute

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr:
        if type is not None:
            self._check_size(type)
        self._in_constant = True
        try:
            return super().parse_dense_int_or_fp_elements_attr(type)
        finally:
            self._in_constant = False

    def _parse_tensor_literal_element(self) -> Parser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        is_bits = element.span.text[:2] in ("0x", "0X")
        return _Bits(False, element.value, element.span) if is_bits else element

    def parse_optional_type(self) -> TypeAttribute | None:
        found = super().parse_optional_type()
        self._refuse(find_type_excess(found))
        if self._in_constant:
            self._check_size(found)
        return found

    def _check_size(self, ir_type: object) -> None:
        if isinstance(ir_type, ShapedType):
            self._refuse(self._expansion.add_constant(ir_type.get_shape()))

    def _refuse(self, reason: str) -> None:
        if reason:
            self.raise_error(reason)

    def _span(self) -> Span:
        return Span(self.pos, self.pos, self._input)


class _Bits(Parser._TensorLiteralElement):
    """An element in hexadecimal; for a float these are its bits, as MLIR writes infinities and NaN."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        bits = self.to_int(parser)
        if bits >> type.bitwidth:
            parser.raise_error(
                f"the value does not fit into the {type.bitwidth} bits of {type}", self.span
            )
        return type.unpack(bits.to_bytes(type.bitwidth // 8, "little"), 1)[0]


def text_error(what: str, span: Span, hint: str = "") -> LiteRtError:
    """Returns an error about a position in a text."""
    shown = f"The line is: {text_line(span)}"
    return LiteRtError(Status.INVALID_ARGUMENT, what, place_of(span), f"{hint} {shown}".strip())


def place_of(span: Span) -> str:
    """Returns a position as `file:line:column`."""
    location = span.get_location()
    return f"{location.file}:{location.line}:{location.col}"


def text_line(span: Span) -> str:
    """Returns the line in which a span begins, as messages show it."""
    start = span.input.get_start_of_line(span.start)
    text = span.input.content[start : span.input.get_end_of_line(span.start)].strip()
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return name_text(shown)
