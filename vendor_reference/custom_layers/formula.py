"""Formulas of work sizes: `((X+15)/16)*16`, over a tensor's B, F, Y and X.

Whole numbers, the variables in either case, `+ - * / %` and parentheses, as in custom layer configurations;
division truncates. What those take by accident (postfix, a zero divisor, a negative size) is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status

_TOKEN = re.compile(r"[ \t]*(?:(\d+)|([A-Za-z_]\w*)|([-+*/%()]))[ \t]*", re.ASCII)
_LENGTH = 500
_DEPTH = 50
_MOST = 2**31 - 1
_HINT = "Formulas have whole numbers, B, F, Y, X, + - * / % and parentheses."


class Formula:
    """A formula that has been read.

    Attributes:
      text: as the user wrote it.
    """

    __slots__ = ("_value", "text")

    def __init__(self, text: str) -> None:
        """Reads a formula.

        Raises:
          LiteRtError: INVALID_ARGUMENT, with the place that cannot be read.
        """
        self.text = text
        self._value = _Parser(text).formula()

    def evaluate(self, dims: Sequence[int]) -> int:
        """The formula's value where B, F, Y, X are `dims`.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a zero divisor, and a value below 0 or above 2^31 - 1.
        """
        value = self._value(dims)
        if not 0 <= value <= _MOST:
            b, f, y, x = dims
            raise _error(self.text, f"is {value} where B={b}, F={f}, Y={y}, X={x}")
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"


_Value = Callable[[Sequence[int]], int]


class _Parser:
    """Recursive descent: sum, product, factor."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._next = 0
        self._depth = 0
        if len(text) > _LENGTH:
            raise _error(text, f"has {len(text)} characters, at most {_LENGTH} are read")
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match:
                raise _error(text, f"has {text[at]!r} at column {at + 1}")
            self._tokens.append(match.group().strip())
            at = match.end()

    def formula(self) -> _Value:
        value = self._chain("+-", lambda: self._chain("*/%", self._factor))
        if self._next < len(self._tokens):
            raise _error(
                self._text, f"has '{self._tokens[self._next]}' where an operator should be"
            )
        return value

    def _chain(self, operators: str, operand: Callable[[], _Value]) -> _Value:
        """Operands with operators of one rank between them, left to right."""
        first = operand()
        rest: list[tuple[str, _Value]] = []
        while (operator := self._peek()) and operator in operators:
            self._next += 1
            rest.append((operator, operand()))
        if not rest:
            return first

        def value(dims: Sequence[int]) -> int:
            total = first(dims)
            for operator, operand in rest:
                total = self._apply(operator, total, operand(dims))
            return total

        return value

    def _factor(self) -> _Value:
        token = self._peek()
        self._next += 1
        if token.isdigit():
            number = int(token) if len(token) < 20 else _MOST + 1
            if number > _MOST:
                raise _error(self._text, f"has a number above {_MOST}")
            return lambda dims: number
        if len(token) == 1 and token in "bfyxBFYX":
            index = "BFYX".index(token.upper())
            return lambda dims: dims[index]
        if token == "(":
            return self._group()
        raise _error(
            self._text, f"has '{token}' where a value should be" if token else "ends early"
        )

    def _group(self) -> _Value:
        self._depth += 1
        if self._depth > _DEPTH:
            raise _error(self._text, f"has more than {_DEPTH} parentheses in each other")
        value = self._chain("+-", lambda: self._chain("*/%", self._factor))
        if self._peek() != ")":
            raise _error(self._text, "has a '(' without its ')'")
        self._next += 1
        self._depth -= 1
        return value

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _apply(self, operator: str, lhs: int, rhs: int) -> int:
        if operator == "+":
            return lhs + rhs
        if operator == "-":
            return lhs - rhs
        if operator == "*":
            return lhs * rhs
        if rhs == 0:
            raise _error(self._text, "divides by zero")
        quotient = abs(lhs) // abs(rhs) * (1 if (lhs < 0) == (rhs < 0) else -1)
        return quotient if operator == "/" else lhs - quotient * rhs


def _error(text: str, what: str) -> LiteRtError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return LiteRtError(Status.INVALID_ARGUMENT, f"formula '{shown}' {what}", hint=_HINT)
