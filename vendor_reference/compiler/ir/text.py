"""Prints IR as text that people can read and edit, and reads the text; errors give the line.

    #NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
    #text = "INPUT0_SHAPE[0] * ..."

The text is MLIR with the ops of the IR levels. Layouts and long strings have aliases, and long attributes are
printed on separate lines. The alias of a layout lists the dimensions in memory, from the outermost to the
innermost. Text from people and other tools is not trusted, because it can be deeply nested, huge, or binary data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from string import ascii_lowercase

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import CallOp
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span

from litert.core.errors import LiteRtError, describe
from litert.core.quoting import name_text
from litert.core.status import Status
from vendor_reference.compiler.ir.declared_ops import (
    DeclaredFunction,
    declared_functions,
    print_declared_op,
)
from vendor_reference.compiler.ir.kernel_attribute import hold_kernels
from vendor_reference.compiler.ir.names import forget_numbers
from vendor_reference.compiler.ir.parser import TextParser, place_of, text_line
from vendor_reference.compiler.ir.text_bounds import (
    MAX_TEXT_BYTES,
    find_excess,
)
from vendor_reference.compiler.ir.types import find_order, map_order

_WIDTH = 100
_DIMENSIONS = {4: "nhwc", 5: "ndhwc"}
"""Letters for a tensor's dimensions, by rank; for other ranks, the letters are a, b, c..."""


def print_ir(module: ModuleOp, aliases: Mapping[str, Attribute] | None = None) -> str:
    """Returns the text of a module of any level, in the form that `read_ir` reads.

    `aliases` holds aliases of attributes that were read from a text; layouts always get an alias.
    """
    names = _Names(aliases or {})
    body = StringIO()
    printer = _Printer(names, body, declared_functions(module))
    printer.print_op(module)
    heads = names.definitions()
    return "\n".join([*heads, *([""] if heads else []), body.getvalue(), ""])


class _Names:
    """The aliases for layouts and long strings that a text has used so far."""

    def __init__(self, given: Mapping[str, Attribute]) -> None:
        self._given: dict[Attribute, str] = {}
        for name, attribute in given.items():
            self._given.setdefault(attribute, name)
        self._taken = set(given)
        self._used: dict[Attribute, str] = {}

    def name(self, attribute: Attribute) -> str:
        """Returns the name of an attribute; "" for an attribute that is printed in place."""
        if attribute not in self._used:
            base = _base_name(attribute)
            if not base:
                return ""
            self._used[attribute] = self._given.get(attribute) or self._new(base)
        return self._used[attribute]

    def definitions(self) -> list[str]:
        """Returns the definitions of aliases at the start of the text."""
        return [f"#{name} = {_definition(value, name)}" for value, name in self._used.items()]

    def _new(self, base: str) -> str:
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


_NO_FUNCTIONS: Mapping[str, DeclaredFunction] = {}


class _Printer(Printer):
    """Extends xDSL's printer by names for layouts; prints calls of `declared` functions as ops."""

    def __init__(
        self,
        names: _Names,
        stream: StringIO,
        declared: Mapping[str, DeclaredFunction] = _NO_FUNCTIONS,
    ) -> None:
        super().__init__(stream=stream)
        self._names = names
        self._declared = declared

    def print_op(self, op: Operation) -> None:
        declared = (
            self._declared.get(op.callee.root_reference.data) if isinstance(op, CallOp) else None
        )
        if declared is None:
            super().print_op(op)
        else:
            assert isinstance(op, CallOp)
            self._print_results(op)
            print_declared_op(self, op, declared)

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
        """Returns an entry on one line; splits the longest part of a line that is too long."""
        text = StringIO()
        _OneLine(self._names, text)._print_attr_string((name, value))
        return text.getvalue()


class _OneLine(_Printer):
    """Prints without line breaks."""

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        Printer.print_attr_dict(self, attr_dict)


def _base_name(attribute: Attribute) -> str:
    """Returns the start of an attribute's name; "" for an attribute that needs no name."""
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
    """Returns a definition such as `affine_map<(n, h, w, c) -> (n, c, h, w)>`.

    The letters of the dimensions are taken from the alias if possible.
    """
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


@dataclass(frozen=True, slots=True)
class Ir:
    """A module that was read from IR text.

    Attributes:
      aliases: Aliases of attributes in the text, without the leading `#`.
      places: Position of each op in the text, as `file:line:column`.
    """

    module: ModuleOp
    aliases: Mapping[str, Attribute]
    places: Mapping[Operation, str]


def read_ir(text: str | bytes, name: str, context: Context) -> Ir:
    """Reads a module, or the ops of a module; `name` is the file name of the text, for messages.

    Checks only the syntax, because `check_ir` verifies the ops.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a syntax error. The message has the line and column, the text at this
        position, and the expected text.
    """
    decoded = _decode(text, name)
    _check_bounds(decoded, name)
    try:
        parser = TextParser(context, decoded, name)
    except ParseError as error:
        raise _parse_error(error) from error
    try:
        module = parser.parse_module()
        hold_kernels(module)
        parser.settle_declared(module)
    except ParseError as error:
        raise _parse_error(error) from error
    except RecursionError:
        what = "the IR text is nested too deeply: the parser reaches Python's recursion limit"
        raise _error(what, parser.place(), "") from None
    except (LiteRtError, MemoryError):
        raise
    except Exception as error:  # xDSL's own error about text that it does not expect
        what = str(error) if isinstance(error, VerifyException) else describe(error)
        raise _error(what, parser.place(), parser.line()) from error
    forget_numbers(module)
    aliases = {
        alias[1:]: value for alias, value in parser.attribute_aliases.items() if alias[0] == "#"
    }
    return Ir(module, aliases, parser.places())


def _decode(text: str | bytes, name: str) -> str:
    if len(text) > MAX_TEXT_BYTES:
        raise _error(
            f"the IR text has {len(text)} bytes, but at most {MAX_TEXT_BYTES} are allowed", name, ""
        )
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise _error(
            f"the file is not a text: the byte at offset {error.start} is not UTF-8",
            f"{name}:{line}",
            "",
        ) from error


def _check_bounds(text: str, name: str) -> None:
    excess = find_excess(text)
    if excess is not None:
        start, what = excess
        span = Span(start, start, Input(text, name))
        raise _error(what, place_of(span), text_line(span))


def _parse_error(error: ParseError) -> LiteRtError:
    what, line, hint = _sentence(error.msg), text_line(error.span), ""
    if "<...>" in line:
        hint = (
            "Three dots are not values: write the values, or dense_resource<name> for data that are stored "
            "elsewhere."
        )
    return _error(what, place_of(error.span), line, hint)


def _sentence(message: str) -> str:
    """Returns a parser's message as a phrase: in lower case, and on one line."""
    text = name_text(" ".join(message.split()).rstrip(".!"))
    if text.startswith("in "):  # xDSL omits the expected text
        text = f"unexpected text {text}"
    if text == "Could not parse entire input":
        text = "the text at this position is not an op"
    is_word = len(text) > 1 and text[1].islower()
    return text[0].lower() + text[1:] if is_word else text


def _error(what: str, where: str, line: str, hint: str = "") -> LiteRtError:
    shown = f"The line is: {line}" if line else ""
    return LiteRtError(Status.INVALID_ARGUMENT, what, where, " ".join(filter(None, (hint, shown))))
