"""Text becomes IR: what people, and other tools, have written, with errors that name the line.

The text is MLIR's, in the notation of the levels. It may be anything: nested without end, huge, or no text at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, ShapedType
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from vendor_reference.compiler.ir.kernel_attribute import hold_kernels

MAX_TEXT_BYTES = 64 << 20
_MAX_DENSE_ELEMENTS = 1 << 24
"""Of a constant in the text: `dense<0.0>` needs a few characters, and its elements memory."""

_QUOTE_OR_COMMENT = re.compile(
    r'''//[^\n]*|"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"|"'''
)
"""A comment, a text in quotes as MLIR has it, or a quote that begins none."""

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
    """Reads a module, or the ops of one.

    Nothing but the notation is checked: `check_ir` does the rest.

    Args:
      text: in UTF-8.
      name: of its file, for messages.
      context: the dialects that it may use.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the line and column, what was found there, and what was expected.
    """
    decoded = _decode(text, name)
    _check_quotes(decoded, name)
    try:
        parser = _Parser(context, decoded, name)
    except ParseError as error:
        raise _parse_error(error) from error
    try:
        module = parser.parse_module()
    except ParseError as error:
        raise _parse_error(error) from error
    except RecursionError:
        raise _error("nested too deep", parser.place(), "") from None
    except MemoryError:
        raise
    except Exception as error:  # xDSL's own, of text that it does not expect
        raise _error(describe(error), parser.place(), parser.line()) from error
    hold_kernels(module)
    aliases = {
        alias[1:]: value for alias, value in parser.attribute_aliases.items() if alias[0] == "#"
    }
    places = {op: _place(span) for op, span in parser.spans.items()}
    return Ir(module, aliases, places)


class _Parser(Parser):
    """xDSL's parser, which remembers where ops begin, and makes no constant that fills the memory."""

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, text, name)
        self._input = Input(text, name)
        self._in_constant = False
        self.spans: dict[Operation, Span] = {}

    def place(self) -> str:
        """Where it is, as `file:line:column`."""
        return _place(self._span())

    def line(self) -> str:
        """The line that it is in."""
        return _line(self._span())

    def parse_operation(self) -> Operation:
        span = self._span()
        op = super().parse_operation()
        self.spans[op] = span
        return op

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr:
        if type is not None:
            self._check_size(type)
        self._in_constant = True
        try:
            return super().parse_dense_int_or_fp_elements_attr(type)
        finally:
            self._in_constant = False

    def parse_optional_type(self) -> TypeAttribute | None:
        found = super().parse_optional_type()
        if self._in_constant:
            self._check_size(found)
        return found

    def _check_size(self, ir_type: object) -> None:
        if isinstance(ir_type, ShapedType) and prod(ir_type.get_shape()) > _MAX_DENSE_ELEMENTS:
            self.raise_error(
                f"a constant of {prod(ir_type.get_shape())} elements in the text: at most "
                f"{_MAX_DENSE_ELEMENTS}, larger ones are written as dense_resource<name>"
            )

    def _span(self) -> Span:
        return Span(self.pos, self.pos, self._input)


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


def _check_quotes(text: str, name: str) -> None:
    """Refuses a text in quotes that does not end: xDSL's own search for the end takes years."""
    for quote in _QUOTE_OR_COMMENT.finditer(text):
        if quote[0] == '"':
            span = Span(quote.start(), quote.start(), Input(text, name))
            raise _error(
                "a text in quotes that does not end in its line, or has an escape that there is not",
                _place(span),
                _line(span),
            )


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
    return shown if shown.isprintable() else ascii(shown)[1:-1]


def _sentence(message: str) -> str:
    """A parser's message as a phrase: it begins in lower case, and on the same line."""
    text = " ".join(message.split()).rstrip(".!")
    text = text if text.isprintable() else ascii(text)[1:-1]
    if text.startswith("in "):  # xDSL leaves out what it has expected
        text = f"unexpected text {text}"
    if text == "Could not parse entire input":
        text = "expected an op"
    is_word = len(text) > 1 and text[1].islower()
    return text[0].lower() + text[1:] if is_word else text


def _error(what: str, where: str, line: str, hint: str = "") -> LiteRtError:
    shown = f"The line is: {line}" if line else ""
    return LiteRtError(Status.INVALID_ARGUMENT, what, where, " ".join(filter(None, (hint, shown))))
