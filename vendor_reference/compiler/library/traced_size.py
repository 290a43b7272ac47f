"""Traced sizes: numbers that represent run-time sizes, and record the formulas that compute these sizes.

A traced size is an `int`, so code for shapes needs no change. Its value is one possible size, and `str` returns
the formula. Arithmetic on traced sizes makes new traced sizes. A comparison raises `NotTraceableError` if its
result differs between sizes within the bounds. Callers also compare the traces of several values, to detect code
that uses the value itself, for example in `range` or `struct.pack`, or as a float.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

_MOST = 2**62


class NotTraceableError(Exception):
    """Raised if a computation has no formula that is right for all sizes within the bounds."""


@dataclass(frozen=True, slots=True, order=True)
class _Atom:
    """A part of a formula that is neither a sum nor a product.

    Attributes:
      least, most: Least and greatest possible value, neither of them negative.
    """

    text: str
    value: int = field(compare=False)
    least: int = field(compare=False)
    most: int = field(compare=False)


_Terms = Mapping[tuple[_Atom, ...], int]
"""A polynomial: the factor of each product of atoms; the atoms of a product are sorted."""


class TracedSize(int):
    """A traced size. Its formula is stored as a polynomial, so that equal formulas compare as equal.

    Attributes:
      least, most: Least and greatest possible value of the size.
    """

    least: int
    most: int
    _terms: _Terms

    def __str__(self) -> str:
        """Returns the formula of the size."""
        shown = sorted(self._terms.items(), key=lambda term: (term[1] < 0, term[0]))
        text = ""
        for product, times in shown:
            factors = [atom.text for atom in product]
            if abs(times) != 1 or not factors:
                factors.append(str(abs(times)))
            sign = ("-" if text else "0-") if times < 0 else "+" if text else ""
            text += sign + "*".join(factors)
        return text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __hash__(self) -> int:
        return hash(frozenset(self._terms.items()))

    def __add__(self, other: int) -> int:
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return _combine(self, other, -1)

    def __rsub__(self, other: int) -> int:
        return _combine(other, self, -1)

    def __neg__(self) -> int:
        return _combine(0, self, -1)

    def __mul__(self, other: int) -> int:
        terms: dict[tuple[_Atom, ...], int] = {}
        for mine, times in self._terms.items():
            for its, count in _terms_of(other).items():
                product = tuple(sorted((*mine, *its)))
                terms[product] = terms.get(product, 0) + times * count
        return _make(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        return _divide(self, other)

    def __rfloordiv__(self, other: int) -> int:
        return _divide(other, self)

    def __mod__(self, other: int) -> int:
        return _remain(self, other)

    def __rmod__(self, other: int) -> int:
        return _remain(other, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and self._sign(other, "==") == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: int) -> bool:
        return self._sign(other, "<") < 0

    def __le__(self, other: int) -> bool:
        return not self > other

    def __gt__(self, other: int) -> bool:
        return self._sign(other, ">") > 0

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def _sign(self, other: int, operator: str) -> int:
        """Returns the sign of the difference: -1, 0 or 1.

        Also returns 0 if no possible difference satisfies `operator`.
        """
        least, most = range_of(self - other)
        if least > 0 or most < 0 or least == most:
            return (least > 0) - (most < 0)
        if (operator == "<" and least == 0) or (operator == ">" and most == 0):
            return 0
        raise NotTraceableError(f"for some sizes, it is unknown whether {self} {operator} {other}")


def traced_size(text: str, value: int, most: int = _MOST, least: int = 1) -> int:
    """Returns a new size with the name `text` in formulas.

    Returns a plain number if only one value is possible.
    """
    if least < 0:
        raise NotTraceableError(f"{text} is below 0")
    return most if least == most else _make({(_Atom(text, value, least, most),): 1})


def range_of(size: int) -> tuple[int, int]:
    """Returns the least and the greatest possible value of a size."""
    return (size.least, size.most) if isinstance(size, TracedSize) else (size, size)


def is_same(size: int, other: int) -> bool:
    """Returns whether two sizes are known to be equal in every run."""
    return range_of(size - other) == (0, 0)


def is_multiple(size: int, divisor: int) -> bool:
    """Returns whether a size is known to be a multiple of a number in every run."""
    return all(times % divisor == 0 for times in _terms_of(size).values())


def same_size(size: int, other: int) -> int | None:
    """Returns the common value of two sizes that must be equal; None if they cannot be equal.

    If the sizes are not known to be equal, each run checks them.
    """
    if is_same(size, other):
        return size
    (low, high), (least, most) = range_of(size), range_of(other)
    if max(low, least) > min(high, most):
        return None
    return _checked(f"same({size},{other})", int.__int__(size), max(low, least), min(high, most))


def exact_quotient(size: int, divisor: int) -> int | None:
    """Returns the quotient of a division without remainder; None if the remainder is not 0.

    If the remainder is unknown, each run checks that it is 0.
    """
    quotient = size // divisor
    if is_same(quotient * divisor, size):
        return quotient
    if not isinstance(size, TracedSize) and not isinstance(divisor, TracedSize):
        return None
    least, most = range_of(quotient)
    whole, by = _factor(size), _factor(divisor)
    text = f"(same({size},{whole}/{by}*{by})/{by})"
    return _checked(text, int.__int__(quotient), least, most)


def unless_negative(size: int) -> int:
    """Returns a size as a single atom for further formulas; in a run, a negative size is an error."""
    return quotient_towards_zero(size, 1)


def at_least(size: int, least: int) -> int | None:
    """Returns a size that must be at least `least`; None if the size is known to be less.

    Unless the size is known to be large enough, each run checks it.

    A traced size can be 0, because another op can make a tensor without elements.
    """
    low, most = range_of(size)
    if low >= least and (least < 1 or not isinstance(size, TracedSize)):
        return size
    if most < least:
        return None
    text = f"(same(min({size},{least}),{least})/{least}*{_factor(size)})"
    return _checked(text, int.__int__(size), max(low, least), most)


def index_below(index: int, size: int) -> int | None:
    """Returns an index that must be in range; None if the index is known to be out of range.

    Unless the index is known to be in range, each run checks it.
    """
    low, most = range_of(size)
    if low > index and not isinstance(size, TracedSize):
        return index
    if most <= index:
        return None
    return _checked(f"(same(min({size},{index + 1}),{index + 1})-1)", index, index, index)


def factor_unless_one(size: int) -> int:
    """Returns 0 for a size of 1, because such a dimension is broadcast with stride 0; otherwise returns 1."""
    if not isinstance(size, TracedSize):
        return int(size != 1)
    return traced_size(f"min({_factor(size)}*({size}-1),1)", int(int.__int__(size) > 1), 1, 0)


def smaller(size: int, other: int) -> int:
    """Returns the smaller of two sizes."""
    for one, another in ((size, other), (other, size)):
        if range_of(one)[1] <= range_of(another)[0]:
            return one
    (low, high), (least, most) = range_of(size), range_of(other)
    value = min(int.__int__(size), int.__int__(other))
    return traced_size(f"min({size},{other})", value, min(high, most), min(low, least))


def quotient_towards_zero(size: int, divisor: int) -> int:
    """Returns the quotient of a size and a number, rounded towards zero as in C.

    In a run, a negative size is an error. The quotient is a single atom for further formulas, so that the bounds
    of these formulas are tight.
    """
    value, least, most = (
        -(-number // divisor) if number < 0 else number // divisor
        for number in (int.__int__(size), *range_of(size))
    )
    if not isinstance(size, TracedSize):
        return value
    if all(times > 0 for times in size._terms.values()):
        return size // divisor
    text = _factor(size) if divisor == 1 else f"({_factor(size)}/{divisor})"
    return traced_size(text, value, most, max(least, 0))


def broadcast_size(size: int, other: int) -> int | None:
    """Returns the size to which two sizes are broadcast; the sizes must be equal, or one of them must be 1.

    Otherwise returns None.
    """
    for one, another in ((size, other), (other, size)):
        if range_of(one) == (1, 1):
            return another
    if is_same(size, other):
        return size
    if not isinstance(size, TracedSize) and not isinstance(other, TracedSize):
        return None
    value = max(int.__int__(size), int.__int__(other))
    (low, high), (least, most) = range_of(size), range_of(other)
    if low == high or least == most:  # the size is that number, or the run ends
        low = least = high = most = low if low == high else least
    return _checked(f"broadcast({size},{other})", value, max(low, least), max(high, most))


def _terms_of(size: int) -> _Terms:
    return size._terms if isinstance(size, TracedSize) else {(): size}


def _combine(size: int, other: int, times: int) -> int:
    terms = dict(_terms_of(size))
    for product, count in _terms_of(other).items():
        terms[product] = terms.get(product, 0) + times * count
    return _make(terms)


def _divide(size: int, other: int) -> int:
    """Returns the quotient, rounded down; a formula rounds towards zero."""
    divisor = range_of(other)
    if divisor[0] < 1:
        raise NotTraceableError(f"({size})/({other}) divides by 0")
    exact = _divide_terms(_terms_of(size), _terms_of(other))
    if exact is not None:
        return _make(exact)
    if range_of(size)[1] <= 0:
        return -((-size + other - 1) // other) if range_of(size) != (0, 0) else 0
    if is_same(size, other):
        return 1
    least, most = range_of(size)
    value = int.__floordiv__(int.__int__(size), int.__int__(other))
    return traced_size(
        f"({_factor(size)}/{_factor(other)})", value, most // divisor[0], least // divisor[1]
    )


def _remain(size: int, other: int) -> int:
    """Returns the remainder of a division that rounds down."""
    left = size - size // other * other
    if not isinstance(left, TracedSize) or range_of(size)[0] < 0:
        return left
    value = int.__int__(size) % int.__int__(other)
    most = min(range_of(size)[1], range_of(other)[1] - 1)
    return traced_size(f"({_factor(size)}%{_factor(other)})", value, most, 0)


def _divide_terms(terms: _Terms, divisor: _Terms) -> _Terms | None:
    """Returns the quotient of each term by a divisor of one term; None if one has a remainder."""
    if len(divisor) != 1:
        return None
    ((taken, number),) = divisor.items()
    made = {}
    for product, times in terms.items():
        left = list(product)
        for atom in taken:
            if atom not in left:
                return None
            left.remove(atom)
        if times % number:
            return None
        made[tuple(left)] = times // number
    return made


def _checked(text: str, value: int, least: int, most: int) -> int:
    """Returns a size whose formula raises an error in a run if the size is out of range.

    The result is a traced size even if only one value is possible.
    """
    if least < 0:
        raise NotTraceableError(f"{text} is below 0")
    return _make({(_Atom(text, value, least, most),): 1})


def _factor(size: int) -> str:
    text = str(size)
    return f"({text})" if set(text) & set("+-*/,") else text


def _make(terms: _Terms) -> int:
    """Returns the size of a polynomial."""
    kept = {product: times for product, times in terms.items() if times}
    if not kept.keys() - {()}:
        return kept.get((), 0)

    def total(low: str, high: str) -> int:
        return sum(
            times * prod(getattr(atom, low if times > 0 else high) for atom in product)
            for product, times in kept.items()
        )

    made = TracedSize(total("value", "value"))
    made.least, made.most, made._terms = total("least", "most"), total("most", "least"), kept
    return made
