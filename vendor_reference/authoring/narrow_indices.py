"""Finds work item indices that are narrower than `size_t` and therefore prevent a driver from using vectors.

Intel's driver for CPUs combines the reads or writes of neighbouring work items into one vector access, if the
driver can prove that the addresses are consecutive. The driver often cannot prove this for an access `y[i]` if `i`
is an `int` or `uint` computed from `get_global_id(0)`. Only indices in dimension 0 matter, since neighbouring work
items have the same `get_global_id(1)`.

The search goes through the tokens of a kernel, one statement at a time. If it cannot parse code in this way, it
returns no note about this code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, groupby
from typing import NamedTuple

from vendor_reference.custom_layers.kernel_source import (
    Token,
    find_closing,
    kernel_tokens,
    split_arguments,
)
from vendor_reference.programs.program_text import find_places

_COST = (
    "On a CPU, Intel's driver may then read and write elements one by one instead of as vectors, and the kernel "
    "may be several times slower. Use size_t, which also works for more than 2^31 elements."
)
_IDS = {"get_global_id", "get_global_linear_id", "get_local_id", "get_local_linear_id"}
_ARITHMETIC = re.compile(r"min|max|clamp|abs|select|mul24|mad24|mad_sat|mul_hi|mad_hi|convert_\w+")
_NARROW = re.compile(r"u?(?:int|short|char)\d*|signed|unsigned")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BETWEEN = {"(", ",", ")"}
_HEADS = {"else", "do", "for", "("}
_NAMES = r"(?!return )(?:[A-Za-z_]\w* (?:\* )*){2,}"
"""Pattern of a declaration: at least two names, perhaps with `*`; a space follows each token."""

_DECLARATION = re.compile(rf"{_NAMES}(?:[=[,] .*)?", re.ASCII)
_FUNCTION = re.compile(rf"{_NAMES}\( .*\) ", re.ASCII)

_SUMS = {"+=", "-="}
_ASSIGNMENTS = _SUMS | {"=", "*=", "/=", "%=", "|=", "&=", "^="}
_LOGIC = {"<", ">", "<=", ">=", "==", "!=", "&&", "||", "!"}
_ENDS = _LOGIC | _ASSIGNMENTS - _SUMS | {",", "?"}
_MEMORY = re.compile(r"v(load|store)a?(_half)?\d*(_rt.)?")


class _Index(NamedTuple):
    """A use of a work item's index, by the narrow variable or conversion on the way.

    "" is the index itself.
    """

    line: int
    name: str
    function: str


@dataclass(slots=True)
class _Variable:
    """A variable; `narrow_type` is its type if the type has few bits, else ""."""

    line: int
    narrow_type: str
    is_global_pointer: bool
    value: set[_Index] = field(default_factory=set)


def find_narrow_index_notes(text: str) -> list[str]:
    """Returns notes about indices narrower than `size_t` in addresses of global memory.

    The result is empty if there are no such indices.

    Args:
      text: Source code that the OpenCL compiler gets, with `#line` directives.
    """
    reader = _KernelReader()
    for statement in _statements(kernel_tokens([text])):
        reader.read(statement)
    found = sorted(index for index in reader.found if index.name)
    if not found:
        return []
    places = [":".join(map(str, place)) for place in find_places(text)]
    shown = dict.fromkeys(f"'{index.name}' ({places[index.line - 1]})" for index in found)
    functions = " and ".join(sorted({index.function for index in found}))
    return [
        f"the kernel computes memory addresses from {functions} in a type narrower than size_t: "
        f"{', '.join(shown)}. {_COST}"
    ]


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yields the tokens before each `;`, `{`, `}` and before the end of a loop's head."""
    statement: list[Token] = []
    depth = 0
    is_literal = False  # inside the braces of `(int []){1, 2}`
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if is_literal or (token.text == "{" and [t.text for t in statement[-2:]] == ["]", ")"]):
            is_literal = token.text != "}"
        elif token.text in (";", "{", "}") or depth < 0:
            yield statement
            statement, depth = [], 0
        else:
            statement.append(token)


class _KernelReader:
    """Reads a kernel's text; `found` holds the indices that are part of an address."""

    def __init__(self) -> None:
        self.found: set[_Index] = set()
        self._variables: dict[str, _Variable] = {}
        self._typedefs: set[str] = set()

    def read(self, statement: Sequence[Token]) -> None:
        """Reads a statement, or the head of a function or a loop."""
        tokens = list(dropwhile(lambda token: token.text in _HEADS, statement))
        text = "".join(f"{token.text} " for token in tokens)
        if text.startswith("typedef "):
            *words, name = [token.text for token in tokens]
            if "*" not in words and self._narrow_type(words):
                self._typedefs.add(name)
        elif _FUNCTION.fullmatch(text):
            self._variables = {}
            for is_between, declaration in groupby(tokens, lambda token: token.text in _BETWEEN):
                if not is_between:
                    self._declare(list(declaration))
        elif _DECLARATION.fullmatch(text):
            types: list[Token] = []
            for declarator in split_arguments(tokens):
                types = self._declare([*types, *declarator])
        else:
            self._value(tokens)
            self._assign(tokens)

    def _narrow_type(self, words: Sequence[str]) -> str:
        """Returns the narrow type among the words of a declaration, as the source spells it; else ""."""
        if "long" in words:
            return ""
        return next((w for w in words if _NARROW.fullmatch(w) or w in self._typedefs), "")

    def _declare(self, tokens: Sequence[Token]) -> list[Token]:
        """Declares the variable of `type name = value`; keeps the type for the next declarator."""
        at = next((i for i, t in enumerate(tokens) if t.text in ("=", "[")), len(tokens))
        *types, name = tokens[:at] or [Token("", 0)]
        words = [token.text for token in types]
        is_number = "*" not in words and [t.text for t in tokens[at : at + 1]] != ["["]
        narrow_type = self._narrow_type(words) if is_number else ""
        is_global = "*" in words and ("__global" in words or "global" in words)
        value = self._value(tokens[at + 1 :])
        self._variables[name.text] = variable = _Variable(name.line, narrow_type, is_global)
        if is_number:
            variable.value = _as_variable(value, variable, name.text)
        return [token for token in types if token.text != "*"]

    def _assign(self, tokens: Sequence[Token]) -> None:
        """Adds the sources of the assigned value to the variables that a statement assigns."""
        for index, token in enumerate(tokens[1:], 1):
            name = tokens[index - 1].text
            variable = self._variables.get(name)
            if variable and token.text in _ASSIGNMENTS:
                value = self._value(split_arguments(tokens[index + 1 :])[0])
                value = _as_variable(value, variable, name)
                variable.value = value if token.text == "=" else variable.value | value

    def _value(self, tokens: Sequence[Token]) -> set[_Index]:
        """Returns the indices that an expression comes from.

        Empty for comparisons and for values from memory.

        Records on the way each index that is part of an address: a subscript, or a number added to
        a pointer.
        """
        value: set[_Index] = set()
        is_address = is_truth = False
        conversion = Token("", 0)
        index = 0
        while index < len(tokens):
            token, follows = tokens[index], tokens[index + 1 : index + 2]
            before = tokens[index - 1].text if index else ""
            index += 1
            if token.text in _ENDS:
                self.found |= value if is_address else set()
                value, is_address, is_truth = set(), False, token.text in _LOGIC
                continue
            variable = self._variables.get(token.text)
            term = variable.value if variable and before not in (".", "->") else set()
            if token.text == "(":
                inside, index = _inside(tokens, index - 1)
                if self._narrow_type([t.text for t in inside]) and len(inside) == 1:
                    conversion = Token(f"({inside[0].text})", token.line)
                    continue
                term = set().union(*self._values(inside))
            elif follows and follows[0].text in ("(", "[") and _NAME.fullmatch(token.text):
                inside, index = _inside(tokens, index)
                values = self._values(inside)
                if follows[0].text == "(":
                    term = self._result(token, inside, values)
                else:
                    term = set()
                    if variable and variable.is_global_pointer:
                        self.found |= set().union(*values)
            elif variable and variable.is_global_pointer and before != "*":
                is_address = True
            if conversion.text:
                term = _narrowed(term, conversion.text, conversion.line)
                conversion = Token("", 0)
            value |= term
        self.found |= value if is_address else set()
        return set() if is_address or is_truth else value

    def _values(self, tokens: Sequence[Token]) -> list[set[_Index]]:
        return [self._value(argument) for argument in split_arguments(tokens)]

    def _result(
        self, name: Token, inside: Sequence[Token], arguments: Sequence[set[_Index]]
    ) -> set[_Index]:
        """Returns the indices that the result of a call comes from."""
        texts = [token.text for token in inside]
        if name.text in _IDS and texts not in (["1"], ["2"]):
            return {_Index(0, "", name.text)}
        memory = _MEMORY.fullmatch(name.text)
        if memory and any(v.is_global_pointer for t in texts if (v := self._variables.get(t))):
            self.found |= arguments[1 if memory[1] == "store" and len(arguments) > 1 else 0]
        if not _ARITHMETIC.fullmatch(name.text):
            return set()
        value = set().union(*arguments)
        is_narrow = _NARROW.match(name.text.removeprefix("convert_"))
        return _narrowed(value, f"({name.text})", name.line) if is_narrow else value


def _inside(tokens: Sequence[Token], index: int) -> tuple[Sequence[Token], int]:
    """Returns the tokens inside the bracket at `index`, and the position after the closing bracket."""
    end = find_closing(tokens, index)
    return tokens[index + 1 : end], end + 1


def _narrowed(value: set[_Index], name: str, line: int) -> set[_Index]:
    """Returns the indices of a value that was converted to a narrow type, each marked with that type."""
    return value | {_Index(line, name, index.function) for index in value}


def _as_variable(value: set[_Index], variable: _Variable, name: str) -> set[_Index]:
    """Returns the indices that a variable comes from; the variable's type decides the conversion."""
    if not variable.narrow_type:
        return value
    value = {index for index in value if not index.name.startswith("(")}
    return _narrowed(value, f"{variable.narrow_type} {name}", variable.line)
