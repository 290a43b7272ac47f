"""Sizes that may be known only at run time: a size is a number or an expression that contains dimensions.

Compilers compute with symbolic sizes as with numbers; at run time, the executor inserts the actual shapes.
Division rounds toward zero, as in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from operator import add, mul, sub
from typing import Any, TypeAlias

from litert.core.errors import LiteRtError
from litert.core.status import Status

MOST = 2**62
"""Largest allowed size; the sum of two such sizes still fits into C's size_t."""


class Expression:
    """A symbolic size; arithmetic operators make larger expressions, and omit neutral operands such as `* 1`."""

    __slots__ = ()

    def __add__(self, other: Size) -> Size:
        return self if other == 0 else Operation("+", self, other)

    def __radd__(self, other: int) -> Size:
        return self if other == 0 else Operation("+", other, self)

    def __sub__(self, other: Size) -> Size:
        return self if other == 0 else Operation("-", self, other)

    def __rsub__(self, other: int) -> Size:
        return Operation("-", other, self)

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int) and other in (0, 1):
            return self if other else 0
        return Operation("*", self, other)

    def __rmul__(self, other: int) -> Size:
        return self * other


@dataclass(frozen=True, slots=True)
class Dimension(Expression):
    """The expression for dimension `index` of the shape with the number `shape`."""

    shape: int
    index: int

    def __str__(self) -> str:
        return f"s{self.shape}[{self.index}]"


@dataclass(frozen=True, slots=True)
class Operation(Expression):
    """The expression `lhs operator rhs`, or `operator(lhs, rhs)`."""

    operator: str
    lhs: Size
    rhs: Size

    def __str__(self) -> str:
        if self.operator.isalpha():
            return f"{self.operator}({self.lhs},{self.rhs})"
        return f"({self.lhs}{self.operator}{self.rhs})"


Size: TypeAlias = int | Expression
Shapes: TypeAlias = Callable[[int], Sequence[int]]
"""Function that returns the dimensions of the shape with a given number."""


def divide(lhs: Size, rhs: Size) -> Size:
    """Returns the quotient, rounded toward zero; raises `ZeroDivisionError` if the divisor is the number 0."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return _quotient(lhs, rhs)
    return lhs if rhs == 1 else Operation("/", lhs, rhs)


def remainder(lhs: Size, rhs: Size) -> Size:
    """Returns the remainder that belongs to the quotient from `divide`; it has the sign of `lhs`."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs - _quotient(lhs, rhs) * rhs
    return Operation("%", lhs, rhs)


def minimum(lhs: Size, rhs: Size) -> Size:
    """Returns the smaller of two sizes."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return min(lhs, rhs)
    return Operation("min", lhs, rhs)


def broadcast(lhs: Size, rhs: Size) -> Size:
    """Returns the size to which two sizes are broadcast.

    Raises `ValueError` if two numbers are different and neither is 1.
    """
    if lhs == rhs or rhs == 1:
        return lhs
    if lhs == 1:
        return rhs
    if isinstance(lhs, int) and isinstance(rhs, int):
        raise ValueError(
            f"computes broadcast({lhs}, {rhs}), but the two sizes must be equal, or one of them must be 1"
        )
    return Operation("broadcast", lhs, rhs)


def same(lhs: Size, rhs: Size) -> Size:
    """Returns the common value of two sizes; raises `ValueError` if they are different numbers."""
    if lhs == rhs:
        return lhs
    if isinstance(lhs, int) and isinstance(rhs, int):
        raise ValueError(f"computes same({lhs}, {rhs}), but the two sizes must be equal")
    return Operation("same", lhs, rhs)


ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": add, "-": sub, "*": mul, "/": divide, "%": remainder, "min": minimum, "broadcast": broadcast,
    "same": same,
}  # fmt: skip
"""Functions that evaluate the operators of expressions."""


def multiply(sizes: Sequence[Size]) -> Size:
    """Returns the product of sizes."""
    return prod(sizes)


def shapes_in(size: Size) -> Iterator[Dimension]:
    """Yields the shape dimensions that an expression uses."""
    if isinstance(size, Dimension):
        yield size
    elif isinstance(size, Operation):
        yield from shapes_in(size.lhs)
        yield from shapes_in(size.rhs)


def evaluate(size: Size, shapes: Shapes, where: str, is_signed: bool = False) -> int:
    """Returns a size's value for the given shapes; `where` is the size's name for error messages.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a divisor is zero, if the value is above `MOST`, or if it is negative and
        `is_signed` is false.
    """
    if isinstance(size, int):
        return size
    try:
        value = _evaluate(size, shapes)
    except ZeroDivisionError:
        raise _error(size, "divides by zero", shapes, where) from None
    except ValueError as error:
        raise _error(size, str(error), shapes, where) from None
    if value > MOST or (value < 0 and not is_signed):
        limit = f"above {MOST}" if value > MOST else "below 0"
        raise _error(size, f"is {value}, which is {limit}", shapes, where)
    return value


def find_largest(size: Size, bounds: Shapes) -> int:
    """Returns an upper bound of a size; `bounds` contains the largest values of the dimensions.

    The function uses interval arithmetic. The bound is therefore never too small, and it is too large only if the
    expression uses a dimension twice.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a divisor is zero for all shapes within the bounds, or if the size can
        exceed `MOST`.
    """
    where = f"the size within bounds: {size}"
    try:
        _, most = _interval(size, bounds)
    except ZeroDivisionError:
        raise _error(size, "divides by zero", bounds, where) from None
    if not 0 <= most <= MOST:
        limit = (
            f"can be {most}, which is above {MOST}"
            if most > MOST
            else f"is at most {most}, which is below 0"
        )
        raise _error(size, limit, bounds, where)
    return most


def _evaluate(size: Size, shapes: Shapes) -> int:
    if isinstance(size, Dimension):
        return shapes(size.shape)[size.index]
    if isinstance(size, Operation):
        lhs, rhs = _evaluate(size.lhs, shapes), _evaluate(size.rhs, shapes)
        value: int = ARITHMETIC[size.operator](lhs, rhs)
        return value
    assert isinstance(size, int)
    return size


def _quotient(lhs: int, rhs: int) -> int:
    quotient = abs(lhs) // abs(rhs)
    return quotient if (lhs < 0) == (rhs < 0) else -quotient


def _interval(size: Size, bounds: Shapes) -> tuple[int, int]:
    """Returns the smallest and the largest value of a size."""
    if isinstance(size, Dimension):
        return 0, bounds(size.shape)[size.index]
    if not isinstance(size, Operation):
        assert isinstance(size, int)
        return size, size
    lhs, rhs = _interval(size.lhs, bounds), _interval(size.rhs, bounds)
    if size.operator == "%":
        return _interval_of_remainder(lhs, rhs)
    if size.operator == "broadcast":
        return min(lhs[0], rhs[0]), max(lhs[1], rhs[1])
    ends: Sequence[int] = rhs
    if size.operator == "/":
        low, high = rhs
        ends = [d for d in (low, -1, 1, high) if low <= d <= high and d]
        if not ends:
            raise ZeroDivisionError
    if size.operator == "same":
        most = min(lhs[1], rhs[1])
        return min(max(lhs[0], rhs[0]), most), most
    values = [ARITHMETIC[size.operator](a, b) for a, b in product(lhs, ends)]
    return min(values), max(values)


def _interval_of_remainder(lhs: tuple[int, int], rhs: tuple[int, int]) -> tuple[int, int]:
    """Returns the smallest and the largest remainder.

    A remainder has the sign of `lhs`. The magnitude of a remainder is not greater than that of `lhs`, and less
    than that of `rhs`.
    """
    most = max(abs(rhs[0]), abs(rhs[1])) - 1
    if most < 0:
        raise ZeroDivisionError
    return -min(max(-lhs[0], 0), most), min(max(lhs[1], 0), most)


def _error(size: Size, what: str, shapes: Shapes, where: str) -> LiteRtError:
    used = dict.fromkeys(shapes_in(size))
    given = " and ".join(
        f"{d} (dimension {d.index} of dynamic shape {d.shape}) is {shapes(d.shape)[d.index]}"
        for d in used
    )
    what = f"the size {size} {what}" + (f"; {given}" if given else "")
    return LiteRtError(Status.INVALID_ARGUMENT, what, where)
