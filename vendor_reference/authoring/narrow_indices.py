"""Indices of work items that are narrower than `size_t`, and so keep a driver from joining neighbours to vectors.

Intel's driver for CPUs makes one vector of what neighbouring work items read or write, where it can prove that
it lies in a row. It often cannot prove it of `y[i]` where `i` is an `int` or a `uint` made of `get_global_id(0)`.
Neighbours differ in dimension 0 alone: `get_global_id(1)` is the same for all of them.

A kernel is read as tokens, statement by statement. That is enough for what kernels are like; where it is not,
there is no note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vendor_reference.custom_layers.kernel_source import (
    Token,
    find_closing,
    kernel_tokens,
    split_arguments,
)
from vendor_reference.device.program_text import find_places

_COST = (
    "On a CPU, Intel's driver may then read and write elements one by one, not as vectors, which takes several "
    "times as long. Use size_t; it also holds beyond 2^31 elements."
)
_IDS = {"get_global_id", "get_global_linear_id", "get_local_id", "get_local_linear_id"}
_OTHER_DIMENSIONS = (["1"], ["2"])
_ARITHMETIC = re.compile(r"min|max|clamp|abs|select|mul24|mad24|mad_sat|mul_hi|mad_hi|convert_\w+")
_NARROW = re.compile(r"u?(?:int|short|char)\d*|signed|unsigned")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NO_TYPES = {"return", "goto", "case", "typedef", "break", "continue", "if", "while", "switch"}
_GLOBAL = {"__global", "global"}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^="}
_LOGIC = {"<", ">", "<=", ">=", "==", "!=", "&&", "||", "!"}
_ENDS_TERMS = _LOGIC | _ASSIGNMENTS - {"+=", "-="} | {",", "?", ":"}
_MEMORY = re.compile(r"v(load|store)a?(_half)?\d*(_rt.)?")


@dataclass(frozen=True, slots=True)
class _NarrowIndex:
    """A number of few bits that comes from a work item's index: a variable, or a conversion.

    Attributes:
      name: with its type, as in C.
      function: that it comes from.
      line: of the text.
    """

    name: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class _Value:
    """What a number comes from.

    Attributes:
      function: the one for a work item's index; "" for anything else.
      narrow: numbers of few bits that it has passed through.
    """

    function: str = ""
    narrow: tuple[_NarrowIndex, ...] = ()

    def __or__(self, other: _Value) -> _Value:
        narrow = dict.fromkeys((*self.narrow, *other.narrow))
        return _Value(self.function or other.function, tuple(narrow))

    def narrowed(self, name: str, line: int) -> _Value:
        if not self.function:
            return self
        return _Value(self.function, (*self.narrow, _NarrowIndex(name, self.function, line)))


@dataclass(slots=True)
class _Variable:
    """A variable or an argument.

    Attributes:
      line: of its declaration.
      narrow_type: its type, where that has few bits; else "".
      is_global: whether it points to global memory.
    """

    line: int
    narrow_type: str = ""
    is_global: bool = False
    value: _Value = field(default_factory=_Value)


def find_narrow_index_notes(text: str) -> list[str]:
    """A sentence about indices in addresses of global memory that are narrower than `size_t`; or none.

    Args:
      text: what the OpenCL compiler gets, with `#line`.
    """
    places = list(find_places(text))
    reader = _Reader()
    for statement, end in _statements(_without_literals(kernel_tokens([text]))):
        reader.read(statement, end)
    shown = []
    for index in sorted(reader.found, key=lambda found: found.line):
        file, line = places[index.line - 1]
        shown.append(f"'{index.name}' ({file}:{line})")
    if not shown:
        return []
    functions = " and ".join(sorted({index.function for index in reader.found}))
    return [
        f"index narrower than size_t, from {functions}, in an address: {', '.join(shown)}. {_COST}"
    ]


def _without_literals(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without what is in the braces of `(int []){1, 2}`."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text == "{" and [t.text for t in result[-2:]] == ["]", ")"]:
            index = find_closing(tokens, index)
        else:
            result.append(tokens[index])
        index += 1
    return result


def _statements(tokens: Sequence[Token]) -> Iterator[tuple[list[Token], str]]:
    """What stands before each `;`, `{` and `}`, and which of them it is; the parts of a `for`, too."""
    statement: list[Token] = []
    for token in tokens:
        if token.text in (";", "{", "}"):
            yield statement, token.text
            statement = []
        else:
            statement.append(token)


class _Reader:
    """Goes through a text, and keeps what its variables come from.

    Attributes:
      found: the indices that are part of an address.
    """

    def __init__(self) -> None:
        self.found: dict[_NarrowIndex, None] = {}
        self._scopes: list[dict[str, _Variable]] = [{}]
        self._typedefs: dict[str, str] = {}

    def read(self, statement: Sequence[Token], end: str) -> None:
        """Reads a statement, and what ends it."""
        is_function = end == "{" and len(self._scopes) == 1
        if not is_function:
            self._statement(_without_head(statement))
        if end == "{":
            self._scopes.append({})
        elif end == "}" and len(self._scopes) > 1:
            self._scopes.pop()
        if is_function:
            self._parameters(statement)

    def _parameters(self, head: Sequence[Token]) -> None:
        opening = [index for index, token in enumerate(head) if token.text == "("]
        for index in opening:
            if find_closing(head, index) == len(head) - 1:
                for parameter in split_arguments(head[index + 1 : -1]):
                    self._declare(parameter)
                return

    def _statement(self, tokens: Sequence[Token]) -> None:
        if tokens and tokens[0].text == "typedef":
            self._name_type(tokens)
            return
        if _is_declaration(tokens):
            types: Sequence[Token] = ()
            for declarator in split_arguments(tokens):
                types = self._declare([*types, *declarator])
            return
        self._find_addresses(tokens)
        for index, token in enumerate(tokens):
            variable = self._find(tokens[index - 1].text) if index else None
            if token.text in _ASSIGNMENTS and variable:
                self._assign(variable, tokens[index - 1].text, token.text, tokens[index + 1 :])

    def _name_type(self, tokens: Sequence[Token]) -> None:
        """Keeps the name of `typedef int name`; others are no numbers of few bits."""
        *types, name = (token.text for token in tokens[1:] or [Token("", 0)])
        if all(map(_NAME.fullmatch, types)):
            self._typedefs[name] = self._narrow_type(types)

    def _narrow_type(self, words: Sequence[str]) -> str:
        """The type of few bits that is among the words of a declaration, as it is written there; else ""."""
        if "long" in words:
            return ""
        return next((w for w in words if _NARROW.fullmatch(w) or self._typedefs.get(w)), "")

    def _declare(self, tokens: Sequence[Token]) -> list[Token]:
        """Declares the variable of `type name = value`; the type is there for the next one."""
        at = next((i for i, t in enumerate(tokens) if t.text in ("=", "[", ":")), len(tokens))
        *types, name = tokens[:at] or [Token("", 0)]
        value = tokens[at + 1 :] if at < len(tokens) and tokens[at].text == "=" else ()
        words = {token.text for token in types}
        is_pointer, is_array = "*" in words, at < len(tokens) and tokens[at].text == "["
        is_global = is_pointer and (bool(words & _GLOBAL) or self._has_pointer(value))
        narrow = "" if is_pointer or is_array else self._narrow_type([t.text for t in types])
        self._find_addresses(value)
        variable = _Variable(name.line, narrow, is_global)
        self._scopes[-1][name.text] = variable
        if not is_pointer and not is_array:
            self._assign(variable, name.text, "=", value)
        return [token for token in types if token.text != "*"]

    def _assign(
        self, variable: _Variable, name: str, operator: str, tokens: Sequence[Token]
    ) -> None:
        value = self._value(_expression(tokens))
        if variable.narrow_type:  # to change it changes the conversion, too
            others = tuple(index for index in value.narrow if not index.name.startswith("("))
            value = _Value(value.function, others)
            value = value.narrowed(f"{variable.narrow_type} {name}", variable.line)
        variable.value = value if operator == "=" else variable.value | value

    def _find(self, name: str) -> _Variable | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _has_pointer(self, tokens: Sequence[Token]) -> bool:
        return any(self._is_pointer(tokens, index) for index in range(len(tokens)))

    def _is_pointer(self, tokens: Sequence[Token], index: int) -> bool:
        """Whether a pointer to global memory stands there, not what it points to."""
        variable = self._find(tokens[index].text)
        if variable is None or not variable.is_global:
            return False
        follows = tokens[index + 1].text if index + 1 < len(tokens) else ""
        before = tokens[index - 1].text if index else ""
        is_read = before == "*" and (index == 1 or not _ends_operand(tokens[index - 2]))
        return follows != "[" and not is_read

    def _find_addresses(self, tokens: Sequence[Token]) -> None:
        """Finds subscripts, sums with a pointer, and the offsets of `vload` and `vstore`."""
        for index, token in enumerate(tokens):
            follows = tokens[index + 1].text if index + 1 < len(tokens) else ""
            variable = self._find(token.text)
            if variable and variable.is_global and follows == "[":
                self._add(tokens[index + 2 : find_closing(tokens, index + 1)])
            elif self._is_pointer(tokens, index):
                self._add(_terms_around(tokens, index))
            elif follows == "(" and (memory := _MEMORY.fullmatch(token.text)):
                arguments = split_arguments(tokens[index + 2 : find_closing(tokens, index + 1)])
                offset = 0 if memory[1] == "load" else 1
                if len(arguments) == offset + 2 and self._has_pointer(arguments[-1]):
                    self._add(arguments[offset])

    def _add(self, address: Sequence[Token]) -> None:
        self.found.update(dict.fromkeys(self._value(address).narrow))

    def _value(self, tokens: Sequence[Token]) -> _Value:
        """What an expression comes from; what is read from memory comes from nowhere, and so do comparisons."""
        value = _Value()
        conversion: Token | None = None
        index = 0
        while index < len(tokens):
            token = tokens[index]
            index += 1
            term = _Value()
            if token.text == "?":
                value = _Value()
            elif token.text in _LOGIC and not any(t.text == "?" for t in tokens[index:]):
                return _Value()
            elif token.text == "[":
                index = find_closing(tokens, index - 1) + 1
            elif token.text in (".", "->"):
                index += 1
            elif token.text == "(":
                end = find_closing(tokens, index - 1)
                inside, index = tokens[index:end], end + 1
                if len(inside) == 1 and self._narrow_type([inside[0].text]):
                    conversion = inside[0]
                    continue
                term = self._value(inside)
            elif _NAME.fullmatch(token.text):
                is_call = index < len(tokens) and tokens[index].text == "("
                end = find_closing(tokens, index) if is_call else index - 1
                term = self._named(token, tokens[index + 1 : end] if is_call else None)
                index = end + 1
            if conversion:
                term = term.narrowed(f"({conversion.text})", conversion.line)
                conversion = None
            value |= term
        return value

    def _named(self, name: Token, arguments: Sequence[Token] | None) -> _Value:
        """What a variable comes from, or the result of a call."""
        if arguments is None:
            variable = self._find(name.text)
            return variable.value if variable else _Value()
        if name.text in _IDS:
            is_same = [t.text for t in arguments] in _OTHER_DIMENSIONS
            return _Value() if is_same else _Value(name.text)
        if not _ARITHMETIC.fullmatch(name.text):
            return _Value()
        value = self._value(arguments)
        is_narrow = _NARROW.match(name.text.removeprefix("convert_"))
        return value.narrowed(f"({name.text})", name.line) if is_narrow else value


def _without_head(statement: Sequence[Token]) -> Sequence[Token]:
    """A statement without `else`, `do` or `for (` in front of it."""
    words = [token.text for token in statement[:3]]
    first = 1 if words[:1] in (["else"], ["do"]) else 0
    return statement[first + 2 :] if words[first : first + 2] == ["for", "("] else statement[first:]


def _is_declaration(tokens: Sequence[Token]) -> bool:
    """Whether it is two names at the least, perhaps with `*`, and then a value, a size or the end."""
    names = 0
    for token in tokens:
        if token.text in ("=", "[", ",") and names:
            break
        if not _NAME.fullmatch(token.text) and token.text != "*":
            return False
        names += token.text != "*"
    return names > 1 and tokens[0].text not in _NO_TYPES


def _expression(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens up to a comma or a parenthesis that closes what began before them."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0 or (token.text == "," and depth == 0):
            return tokens[:index]
    return tokens


def _terms_around(tokens: Sequence[Token], index: int) -> Sequence[Token]:
    """What is added to a pointer, on both sides of it."""
    begin = index
    while begin > 0 and tokens[begin - 1].text not in _ENDS_TERMS | {"(", "["}:
        begin -= 1
    end, depth = index, 0
    while end < len(tokens) and (depth or tokens[end].text not in _ENDS_TERMS | {")", "]"}):
        depth += (tokens[end].text in ("(", "[")) - (tokens[end].text in (")", "]"))
        end += 1
    return [*tokens[begin:index], *tokens[index + 1 : end]]


def _ends_operand(token: Token) -> bool:
    return token.text in (")", "]") or bool(re.fullmatch(r"\w+", token.text))
