"""IR becomes text for people, and text becomes IR, with errors that name the line.

    #NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
    #text = "INPUT0_SHAPE[0] * ..."

It is MLIR, in the notation of the levels: layouts and long texts have names, long attributes lines of their
own. A layout is called by its dimensions, the slowest in memory first. What people, and other tools, have written
may be anything: nested without end, huge, or no text at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from operator import itemgetter
from string import ascii_lowercase
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    ShapedType,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span

from litert.core.errors import LiteRtError, describe
from litert.core.quoting import name_text
from litert.core.status import Status
from vendor_reference.compiler.ir.kernel_attribute import hold_kernels
from vendor_reference.compiler.ir.names import forget_numbers
from vendor_reference.compiler.ir.text_bounds import (
    MAX_TEXT_BYTES,
    Expansion,
    find_excess,
    find_type_excess,
)
from vendor_reference.compiler.ir.types import find_order, map_order

_WIDTH = 100
_DIMENSIONS = {4: "nhwc", 5: "ndhwc"}
"""What the dimensions of a tensor are called, by rank; those of others are a, b, c..."""


def print_ir(module: ModuleOp, aliases: Mapping[str, Attribute] | None = None) -> str:
    """The text of a module of any level, which `read_ir` takes.

    `aliases` are what attributes are called, where text has named them already; layouts get a name anyway.
    """
    names = _Names(aliases or {})
    body = StringIO()
    printer = _Printer(names, stream=body)
    printer.print_op(module)
    heads = names.definitions()
    return "\n".join([*heads, *([""] if heads else []), body.getvalue(), ""])


class _Names:
    """What a text has used so far that has a name: layouts, and long texts."""

    def __init__(self, given: Mapping[str, Attribute]) -> None:
        self._given: dict[Attribute, str] = {}
        for name, attribute in given.items():
            self._given.setdefault(attribute, name)
        self._taken = set(given)
        self._used: dict[Attribute, str] = {}

    def name(self, attribute: Attribute) -> str:
        """What an attribute is called; "" for one that stands in its place."""
        if attribute not in self._used:
            base = _base_name(attribute)
            if not base:
                return ""
            self._used[attribute] = self._given.get(attribute) or self._new(base)
        return self._used[attribute]

    def definitions(self) -> list[str]:
        """The lines in front of the text."""
        return [f"#{name} = {_definition(value, name)}" for value, name in self._used.items()]

    def _new(self, base: str) -> str:
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


class _Printer(Printer):
    """xDSL's printer, with names for layouts."""

    def __init__(self, names: _Names, stream: StringIO) -> None:
        super().__init__(stream=stream)
        self._names = names

    def print_attribute(self, attribute: Attribute) -> None:
        is_named = isinstance(attribute, (AffineMapAttr, StringAttr))
        if is_named and (name := self._names.name(attribute)):
            self.print_string(f"#{name}")
        else:
            super().print_attribute(attribute)

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        entries = [self._entry_text(name, value) for name, value in attr_dict.items()]
        length = sum(len(entry) + 2 for entry in entries)
        if self._current_column + length <= _WIDTH or not entries:
            with self.in_braces():
                self.print_string(", ".join(entries))
            return
        with self.in_braces():
            with self.indented():
                for index, (name, value) in enumerate(attr_dict.items()):
                    self._print_new_line()
                    super()._print_attr_string((name, value))
                    if index + 1 < len(attr_dict):
                        self.print_string(",")
            self._print_new_line()

    def _entry_text(self, name: str, value: Attribute) -> str:
        """An entry on one line; the longest part of a line is printed again where it does not fit."""
        text = StringIO()
        _OneLine(self._names, text)._print_attr_string((name, value))
        return text.getvalue()


class _OneLine(_Printer):
    """Breaks no line."""

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        Printer.print_attr_dict(self, attr_dict)


def _base_name(attribute: Attribute) -> str:
    """How an attribute's name begins; "" for one that needs none."""
    if isinstance(attribute, StringAttr):
        return "text" if len(attribute.data) > _WIDTH else ""
    order = find_order(attribute) if isinstance(attribute, AffineMapAttr) else None
    if not order or len(order) > len(ascii_lowercase):
        return ""
    letters = _letters(len(order))
    return "".join(letters[dim] for dim in order).upper()


def _letters(rank: int) -> str:
    return _DIMENSIONS.get(rank) or ascii_lowercase[:rank]


def _definition(attribute: Attribute, name: str) -> str:
    """`affine_map<(n, h, w, c) -> (n, c, h, w)>`: dimensions are called as the name says, where it does."""
    if not isinstance(attribute, AffineMapAttr):
        return str(attribute)
    order = map_order(attribute)
    letters = name.lower()
    if len(letters) != len(order) or len(set(letters)) != len(letters) or not letters.isalpha():
        letters = "".join(_letters(len(order))[dim] for dim in order)
    dims = dict(zip(order, letters, strict=True))
    return (
        f"affine_map<({', '.join(dims[d] for d in range(len(order)))}) -> ({', '.join(letters)})>"
    )


_SPELLINGS = {
    "operation func is not registered": "It is func.func.",
    "operation call is not registered": "It is func.call.",
    "operation alloc is not registered": "It is memref.alloc().",
    "operation dealloc is not registered": "It is memref.dealloc.",
}
"""Of older documents, and what MLIR has today."""


@dataclass(frozen=True, slots=True)
class Ir:
    """What a text holds.

    Attributes:
      aliases: names that the text gives to attributes, without the `#` in front.
      places: where each op begins, as `file:line:column`.
    """

    module: ModuleOp
    aliases: Mapping[str, Attribute]
    places: Mapping[Operation, str]


def read_ir(text: str | bytes, name: str, context: Context) -> Ir:
    """Reads a module, or the ops of one; `name` is its file's, for messages.

    Nothing but the notation is checked: `check_ir` does the rest.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the line and column, what was found there, and what was expected.
    """
    decoded = _decode(text, name)
    _check_bounds(decoded, name)
    try:
        parser = _TextParser(context, decoded, name)
    except ParseError as error:
        raise _parse_error(error) from error
    try:
        module = parser.parse_module()
        hold_kernels(module)
    except ParseError as error:
        raise _parse_error(error) from error
    except RecursionError:
        raise _error("nested too deep", parser.place(), "") from None
    except MemoryError:
        raise
    except Exception as error:  # xDSL's own, of text that it does not expect
        raise _error(describe(error), parser.place(), parser.line()) from error
    forget_numbers(module)
    aliases = {
        alias[1:]: value for alias, value in parser.attribute_aliases.items() if alias[0] == "#"
    }
    return Ir(module, aliases, parser.places())


class _TextParser(Parser):
    """xDSL's parser, which remembers where ops begin, and makes no constant that fills the memory."""

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, text, name)
        self._input = Input(text, name)
        self._in_constant = False
        self._expansion = Expansion(len(text))
        self._starts: dict[Operation, int] = {}

    def place(self) -> str:
        """Where it is, as `file:line:column`."""
        return _place(self._span())

    def line(self) -> str:
        """The line that it is in."""
        return _line(self._span())

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        self._starts[op] = start
        return op

    def places(self) -> dict[Operation, str]:
        """Where each op begins, as `file:line:column`; lines are counted once."""
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
    """An element in hexadecimal, which for a float is its bits: so MLIR writes infinities and NaN."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        bits = self.to_int(parser)
        if bits >> type.bitwidth:
            parser.raise_error(f"more than the {type.bitwidth} bits of {type}", self.span)
        return type.unpack(bits.to_bytes(type.bitwidth // 8, "little"), 1)[0]


def _decode(text: str | bytes, name: str) -> str:
    if len(text) > MAX_TEXT_BYTES:
        raise _error(f"{len(text)} bytes of text, at most {MAX_TEXT_BYTES}", name, "")
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _error(f"no text: byte {error.start} is no UTF-8", f"{name}:{line}", "") from error


def _check_bounds(text: str, name: str) -> None:
    excess = find_excess(text)
    if excess is not None:
        start, what = excess
        span = Span(start, start, Input(text, name))
        raise _error(what, _place(span), _line(span))


def _parse_error(error: ParseError) -> LiteRtError:
    what, line = _sentence(error.msg), _line(error.span)
    hint = _SPELLINGS.get(what, "")
    if "<...>" in line:
        hint = "Three dots are no values: bytes that are elsewhere are written as dense_resource<name>."
    return _error(what, _place(error.span), line, hint)


def _place(span: Span) -> str:
    location = span.get_location()
    return f"{location.file}:{location.line}:{location.col}"


def _line(span: Span) -> str:
    start = span.input.get_start_of_line(span.start)
    text = span.input.content[start : span.input.get_end_of_line(span.start)].strip()
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return name_text(shown)


def _sentence(message: str) -> str:
    """A parser's message as a phrase: it begins in lower case, and on the same line."""
    text = name_text(" ".join(message.split()).rstrip(".!"))
    if text.startswith("in "):  # xDSL leaves out what it has expected
        text = f"unexpected text {text}"
    if text == "Could not parse entire input":
        text = "expected an op"
    is_word = len(text) > 1 and text[1].islower()
    return text[0].lower() + text[1:] if is_word else text


def _error(what: str, where: str, line: str, hint: str = "") -> LiteRtError:
    shown = f"The line is: {line}" if line else ""
    return LiteRtError(Status.INVALID_ARGUMENT, what, where, " ".join(filter(None, (hint, shown))))
