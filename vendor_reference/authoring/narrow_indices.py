"""Indices of work items that are narrower than `size_t`, and so keep a driver from joining neighbours to vectors.

Intel's driver for CPUs makes one vector of what neighbouring work items read or write, where it can prove that
it lies in a row. It often cannot prove it of `y[i]` where `i` is an `int` or a `uint` made of `get_global_id(0)`.
Neighbours differ in dimension 0 alone: `get_global_id(1)` is the same for all of them.

A kernel is read as tokens, statement by statement. That is enough for what kernels are like; where it is not,
there is no note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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
_DECLARATION = re.compile(
    r"(?!(?:return|goto|case|break|continue|if|while|switch) )(?:\* )*(?:[A-Za-z_]\w* (?:\* )*){2,}(?:[=[,] .*)?",
    re.ASCII,
)
"""Two names at the least, perhaps with `*`, and then a value, a size or the end; a space behind each token."""

_GLOBAL = {"__global", "global"}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^="}
_LOGIC = {"<", ">", "<=", ">=", "==", "!=", "&&", "||", "!"}
_ENDS_TERMS = _LOGIC | _ASSIGNMENTS - {"+=", "-="} | {",", "?", ":"}
_MEMORY = re.compile(r"v(load|store)a?(_half)?\d*(_rt.)?")


@dataclass(frozen=True, slots=True)
class _Index:
    """A work item's index, or a number of few bits that comes from it: a variable, or a conversion.

    Attributes:
      function: that it comes from.
      name: with its type, as in C; "" for the index itself.
      line: of the text.
    """

    function: str
    name: str = ""
    line: int = 0


_Value: TypeAlias = Mapping[_Index, None]
"""What a number comes from, each once and in order; nothing, where it has nothing to do with work items."""


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
    value: _Value = field(default_factory=dict)


def find_narrow_index_notes(text: str) -> list[str]:
    """A sentence about indices in addresses of global memory that are narrower than `size_t`; or none.

    Args:
      text: what the OpenCL compiler gets, with `#line`.
    """
    reader = _KernelReader()
    for statement, end in _statements(kernel_tokens([text])):
        reader.read(statement, end)
    found = sorted((index for index in reader.found if index.name), key=lambda index: index.line)
    if not found:
        return []
    places = [":".join(map(str, place)) for place in find_places(text)]
    shown = dict.fromkeys(f"'{index.name}' ({places[index.line - 1]})" for index in found)
    functions = " and ".join(sorted({index.function for index in found}))
    return [
        f"index narrower than size_t, from {functions}, in an address: {', '.join(shown)}. {_COST}"
    ]


def _statements(tokens: Sequence[Token]) -> Iterator[tuple[list[Token], str]]:
    """What stands before each `;`, `{` and `}`, and which of them it is; the parts of a `for`, too."""
    statement: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.text == "{" and [t.text for t in statement[-2:]] == ["]", ")"]:
            index = find_closing(tokens, index)  # the braces of `(int []){1, 2}`
        elif token.text in (";", "{", "}"):
            yield statement, token.text
            statement = []
        else:
            statement.append(token)
        index += 1


class _KernelReader:
    """Goes through a text, and keeps what its variables come from.

    Attributes:
      found: the indices that are part of an address.
    """

    def __init__(self) -> None:
        self.found: dict[_Index, None] = {}
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
            for parameter in _parameters(statement):
                self._declare(parameter)

    def _statement(self, tokens: Sequence[Token]) -> None:
        texts = [token.text for token in tokens]
        if texts[:1] == ["typedef"]:  # of `typedef int name`; others are no numbers of few bits
            *words, name = texts[1:] or [""]
            if all(map(_NAME.fullmatch, words)):
                self._typedefs[name] = self._narrow_type(words)
        elif _DECLARATION.fullmatch("".join(f"{text} " for text in texts)):
            types: Sequence[Token] = ()
            for declarator in split_arguments(tokens):
                types = self._declare([*types, *declarator])
        else:
            self._find_addresses(tokens)
            for index, text in enumerate(texts[1:], 1):
                variable = self._find(texts[index - 1])
                if text in _ASSIGNMENTS and variable:
                    self._assign(variable, texts[index - 1], text, tokens[index + 1 :])

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
        variable = self._scopes[-1][name.text] = _Variable(name.line, narrow, is_global)
        if not is_pointer and not is_array:
            self._assign(variable, name.text, "=", value)
        return [token for token in types if token.text != "*"]

    def _assign(
        self, variable: _Variable, name: str, operator: str, tokens: Sequence[Token]
    ) -> None:
        value = self._value(_expression(tokens))
        if variable.narrow_type:  # to change it changes the conversion, too
            value = {index: None for index in value if not index.name.startswith("(")}
            value = _narrowed(value, f"{variable.narrow_type} {name}", variable.line)
        variable.value = value if operator == "=" else {**variable.value, **value}

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
        self.found.update(self._value(address))

    def _value(self, tokens: Sequence[Token]) -> _Value:
        """What an expression comes from; what is read from memory comes from nowhere, and so do comparisons."""
        value: _Value = {}
        conversion: Token | None = None
        index = 0
        while index < len(tokens):
            token = tokens[index]
            index += 1
            term: _Value = {}
            if token.text == "?":
                value = {}
            elif token.text in _LOGIC and not any(t.text == "?" for t in tokens[index:]):
                return {}
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
                term = _narrowed(term, f"({conversion.text})", conversion.line)
                conversion = None
            value = {**value, **term}
        return value

    def _named(self, name: Token, arguments: Sequence[Token] | None) -> _Value:
        """What a variable comes from, or the result of a call."""
        if arguments is None:
            variable = self._find(name.text)
            return variable.value if variable else {}
        if name.text in _IDS:
            is_same = [t.text for t in arguments] in _OTHER_DIMENSIONS
            return {} if is_same else {_Index(name.text): None}
        if not _ARITHMETIC.fullmatch(name.text):
            return {}
        value = self._value(arguments)
        is_narrow = _NARROW.match(name.text.removeprefix("convert_"))
        return _narrowed(value, f"({name.text})", name.line) if is_narrow else value


def _narrowed(value: _Value, name: str, line: int) -> _Value:
    """What a number of few bits comes from: what is made such, and itself."""
    return {**value, **{_Index(index.function, name, line): None for index in value}}


def _parameters(head: Sequence[Token]) -> list[list[Token]]:
    """The parameters of a function: what the last parentheses of its head enclose."""
    for index, token in enumerate(head):
        if token.text == "(" and find_closing(head, index) == len(head) - 1:
            return split_arguments(head[index + 1 : -1])
    return []


def _without_head(statement: Sequence[Token]) -> Sequence[Token]:
    """A statement without `else`, `do` or `for (` in front of it."""
    words = [token.text for token in statement[:3]]
    first = 1 if words[:1] in (["else"], ["do"]) else 0
    return statement[first + 2 :] if words[first : first + 2] == ["for", "("] else statement[first:]


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
