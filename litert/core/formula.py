"""Parses and evaluates formulas over a tensor's dimensions B, F, Y and X, such as `((X+15)/16)*16`.

A formula consists of whole numbers, variables in upper or lower case, `+ - * / %` and parentheses, as in custom
layer configurations of OpenVINO's Inference Engine. Division rounds toward zero. The Inference Engine accidentally
also accepts postfix notation, zero divisors and negative sizes; this module raises errors for them.

In addition, a formula may use the sizes of any tensor of the op. For example, `INPUT1_DIMS[3]` is the size of
dimension X of input 1, since kernels count dimensions in the order B, F, Y, X. `INPUT1_SHAPE[3]` is the size of
dimension 3 of input 1 in the tensor's own order. `min(X, 8)` is the smaller of two values.
`broadcast(B, INPUT1_DIMS[0])` is the size to which two dimensions are broadcast by NumPy's rules.
`same(B, INPUT1_DIMS[0])` is the common value of two sizes that must be equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from litert.core.counts import count_text, index_range
from litert.core.errors import LiteRtError
from litert.core.kernel_dims import kernel_dims
from litert.core.sizes import ARITHMETIC, Size
from litert.core.status import Status

_TOKEN = re.compile(
    r"[ \t]*(?:\d+|[A-Za-z_]\w*(?:[ \t]*\[[ \t]*\d+[ \t]*\])?|[-+*/%(),])[ \t]*", re.ASCII
)
_SIZE = re.compile(r"(INPUT|OUTPUT)(\d{1,5})_(DIMS|SHAPE)[ \t]*\[[ \t]*(\d{1,5})[ \t]*\]", re.ASCII)
_FUNCTIONS = [name for name in ARITHMETIC if name.isalpha()]
MOST_CHARACTERS = 2000
"""Largest number of characters of a formula."""
_DEPTH = 50
_MOST = 2**31 - 1
_HINT = (
    "A formula may contain whole numbers, B, F, Y, X, sizes such as INPUT0_DIMS[3], + - * / %, "
    "parentheses, min(X, 8), broadcast(B, INPUT1_DIMS[0]) and same(B, INPUT1_DIMS[0])."
)
_VALUE_HINT = "Correct the formula, or use tensors of other shapes."
_TENSOR_HINT = "In the formula, use only inputs and outputs that the op has."

Shapes = Sequence[Sequence[Size] | None]
"""Shapes of an op's inputs or outputs; None for an absent optional input."""


class TensorSize(NamedTuple):
    """A reference in a formula to the size of a tensor's dimension, such as `INPUT0_DIMS[3]`.

    Attributes:
      is_bfyx: Whether `dimension` is an index in the order B, F, Y, X; otherwise, it is an index in the tensor's
        own order.
    """

    is_output: bool
    tensor: int
    is_bfyx: bool
    dimension: int

    def __str__(self) -> str:
        kind = "OUTPUT" if self.is_output else "INPUT"
        return f"{kind}{self.tensor}_{'DIMS' if self.is_bfyx else 'SHAPE'}[{self.dimension}]"


class Formula:
    """A parsed formula.

    Attributes:
      text: Text of the formula as the user wrote it.
      has_letters: Whether the formula uses B, F, Y or X.
      tensor_sizes: Tensor sizes that the formula uses.
    """

    __slots__ = ("_value", "has_letters", "tensor_sizes", "text")

    def __init__(self, text: str) -> None:
        """Parses a formula.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the formula is not valid; the error has the position of the mistake.
        """
        self.text = text
        parser = _Parser(text)
        self._value = parser.formula()
        self.has_letters = parser.has_letters
        self.tensor_sizes: Sequence[TensorSize] = tuple(parser.tensor_sizes)

    def evaluate(
        self, dims: Sequence[int], inputs: Shapes = (), outputs: Shapes = (), most: int = _MOST
    ) -> int:
        """Returns the value of the formula, if all sizes are known numbers; see `resolve`."""
        value = self.resolve(dims, inputs, outputs, most)
        assert isinstance(value, int)
        return value

    def resolve(
        self, dims: Sequence[Size], inputs: Shapes = (), outputs: Shapes = (), most: int = _MOST
    ) -> Size:
        """Returns the value of the formula, or an expression if it uses sizes that are known only at run time.

        Args:
          dims: Values of the variables B, F, Y and X.
          inputs: Shapes of the op's inputs, for sizes such as `INPUT0_DIMS[3]`.
          outputs: Shapes of the op's outputs, for sizes such as `OUTPUT0_DIMS[3]`.
          most: Largest allowed value of the formula.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a divisor is zero, if the op lacks a tensor or dimension that the
            formula uses, or if the value is below 0 or above `most`.
        """
        sizes = {size: self._size(size, inputs, outputs) for size in self.tensor_sizes}
        value = self._value(dims, sizes)
        if isinstance(value, int) and not 0 <= value <= most:
            used = [f"{d}={n}" for d, n in zip("BFYX", dims, strict=True) if self.has_letters]
            used += [f"{size}={n}" for size, n in sizes.items()]
            limit = f", but may be at most {most}" if value > most else ", but must be at least 0"
            where = " for " if used else ""
            raise _error(
                self.text, f"has the value {value}{where}{', '.join(used)}{limit}", _VALUE_HINT
            )
        return value

    def _size(self, size: TensorSize, inputs: Shapes, outputs: Shapes) -> Size:
        shapes = outputs if size.is_output else inputs
        kind = "output" if size.is_output else "input"
        if size.tensor >= len(shapes):
            raise _error(
                self.text,
                f"uses {kind} {size.tensor} of the op, but {index_range(kind, len(shapes))}",
                _TENSOR_HINT,
            )
        shape = shapes[size.tensor]
        if shape is None:
            raise _error(
                self.text, f"uses {size}, but the op omits {kind} {size.tensor}", _TENSOR_HINT
            )
        sizes = kernel_dims(shape) if size.is_bfyx else shape
        if size.dimension >= len(sizes):
            shown = ", ".join(str(n) if isinstance(n, int) else "?" for n in sizes)
            has = f"{kind} {size.tensor} has only {count_text(len(sizes), 'dimension')}: [{shown}]"
            raise _error(self.text, f"uses {size}, but {has}", _VALUE_HINT)
        return sizes[size.dimension]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"


_Value = Callable[[Sequence[Size], Mapping[TensorSize, Size]], Size]
"""A parsed part of a formula: a function that computes a value from B, F, Y, X and the sizes of tensors."""


class _Parser:
    """Parses a formula by recursive descent: sums, products, factors."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._next = 0
        self._depth = 0
        self.has_letters = False
        self.tensor_sizes: dict[TensorSize, None] = {}
        if len(text) > MOST_CHARACTERS:
            raise _error(
                text, f"has {len(text)} characters, but may have at most {MOST_CHARACTERS}"
            )
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match:
                raise _error(
                    text, f"contains the invalid character {text[at]!r} at column {at + 1}"
                )
            self._tokens.append(match.group().strip())
            at = match.end()

    def formula(self) -> _Value:
        value = self._sum()
        if token := self._peek():
            raise _error(self._text, f"contains '{token}' where an operator must be")
        return value

    def _sum(self) -> _Value:
        return self._chain("+-", lambda: self._chain("*/%", self._factor))

    def _chain(self, operators: str, operand: Callable[[], _Value]) -> _Value:
        """Parses operands with operators of one precedence, from left to right."""
        first = operand()
        rest: list[tuple[str, _Value]] = []
        while (operator := self._peek()) and operator in operators:
            self._next += 1
            rest.append((operator, operand()))
        if not rest:
            return first

        def value(dims: Sequence[Size], sizes: Mapping[TensorSize, Size]) -> Size:
            total = first(dims, sizes)
            for operator, operand in rest:
                next_value = operand(dims, sizes)
                if operator in "/%" and next_value == 0:
                    raise _error(self._text, "divides by zero", _VALUE_HINT)
                total = ARITHMETIC[operator](total, next_value)
            return total

        return value

    def _factor(self) -> _Value:
        token = self._peek()
        self._next += 1
        if token.isdigit():
            number = int(token) if len(token) < 20 else _MOST + 1
            if number > _MOST:
                raise _error(self._text, f"contains a number that is greater than {_MOST}")
            return lambda dims, sizes: number
        if len(token) == 1 and token in "bfyxBFYX":
            index = "BFYX".index(token.upper())
            self.has_letters = True
            return lambda dims, sizes: dims[index]
        if found := _SIZE.fullmatch(token):
            return self._tensor_size(found)
        if token == "(":
            return self._group()
        if token in _FUNCTIONS and self._peek() == "(":
            self._next += 1
            return self._call(token)
        if not self._tokens:
            raise _error(self._text, "is empty")
        place = f"contains '{token}'" if token else "ends"
        raise _error(self._text, f"{place} where a number, a variable or '(' must be")

    def _tensor_size(self, found: re.Match[str]) -> _Value:
        size = TensorSize(found[1] == "OUTPUT", int(found[2]), found[3] == "DIMS", int(found[4]))
        if size.is_bfyx and size.dimension > 3:
            raise _error(self._text, f"uses {size}, but B, F, Y, X have the indices 0 to 3")
        self.tensor_sizes[size] = None
        return lambda dims, sizes: sizes[size]

    def _group(self) -> _Value:
        self._enter()
        value = self._sum()
        self._expect(")")
        return value

    def _call(self, name: str) -> _Value:
        """Parses the two arguments of a function after its opening parenthesis."""
        self._enter()
        lhs = self._sum()
        self._expect(",")
        rhs = self._sum()
        self._expect(")")

        def value(dims: Sequence[Size], sizes: Mapping[TensorSize, Size]) -> Size:
            found = lhs(dims, sizes), rhs(dims, sizes)
            try:
                made: Size = ARITHMETIC[name](*found)
            except ValueError as error:
                raise _error(self._text, str(error), _VALUE_HINT) from None
            return made

        return value

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise _error(self._text, f"contains more than {_DEPTH} nested parentheses")

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise _error(
                self._text,
                "must pass two arguments to each function"
                if token == ","
                else f"contains a '(' without the matching '{token}'",
            )
        self._next += 1
        self._depth -= token == ")"

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""


def _error(text: str, what: str, hint: str = _HINT) -> LiteRtError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return LiteRtError(Status.INVALID_ARGUMENT, f"formula '{shown}' {what}", hint=hint)
