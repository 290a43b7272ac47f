"""Tests sizes that are known only in a run: they compute as in C, and their maximum is never too small."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.sizes import (
    ARITHMETIC,
    Dimension,
    Operation,
    Size,
    divide,
    evaluate,
    find_largest,
    multiply,
    remainder,
)
from litert.core.status import Status

B, F = Dimension(0, 0), Dimension(0, 1)
SIZES = st.recursive(
    st.one_of(st.integers(0, 9), st.sampled_from([B, F])),
    lambda inner: st.builds(Operation, st.sampled_from(list(ARITHMETIC)), inner, inner),
    max_leaves=8,
)


def at(*shape: int) -> Sequence[int]:
    return shape


def test_sizes_compute_like_numbers() -> None:
    size = divide(B + 15, 16) * 16 + 2 * F - 1
    assert evaluate(size, lambda _: at(17, 3), "") == 37
    assert evaluate(remainder(B, 5) + (100 - F), lambda _: at(17, 3), "") == 99


def test_what_changes_nothing_is_left_out() -> None:
    assert multiply([1, B, 1]) is B
    assert B + 0 is B and 0 + B is B and B - 0 is B and divide(B, 1) is B
    assert B * 0 == 0 == 0 * B
    assert multiply([2, 3]) == 6


@pytest.mark.parametrize(
    ("lhs", "rhs", "quotient", "rest"), [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1)]
)
def test_division_truncates_as_in_c(lhs: int, rhs: int, quotient: int, rest: int) -> None:
    assert (divide(lhs, rhs), remainder(lhs, rhs)) == (quotient, rest)
    assert evaluate(Operation("/", B + lhs, rhs) + 10, lambda _: at(0, 0), "") == quotient + 10


@pytest.mark.parametrize(
    ("size", "what"),
    [
        (
            B - 5,
            "the size (s0[0]-5) is -3, which is below 0; s0[0] (dimension 0 of dynamic shape 0) is 2",
        ),
        (divide(4, B - 2), "divides by zero; s0[0] (dimension 0 of dynamic shape 0) is 2"),
        (multiply([B * 2**40] * 2), "is 4835703278458516698824704"),
    ],
)
def test_a_size_that_cannot_be_is_an_error_with_its_dimensions(size: Size, what: str) -> None:
    with pytest.raises(LiteRtError) as error:
        evaluate(size, lambda _: at(2, 3), "global size of kernel 'k'")
    assert error.value.status is Status.INVALID_ARGUMENT
    assert what in error.value.what and "kernel 'k'" in error.value.where


@given(SIZES, st.integers(0, 6), st.integers(0, 6), st.data())
def test_no_shape_within_bounds_is_larger_than_the_largest(
    size: Size, batch: int, features: int, data: st.DataObject
) -> None:
    bound = at(batch, features)
    try:
        most = find_largest(size, lambda _: bound)
    except LiteRtError:
        most = -1  # no shape within the bounds gives a value
    actual = at(data.draw(st.integers(0, batch)), data.draw(st.integers(0, features)))
    try:
        value = evaluate(size, lambda _: actual, "")
    except LiteRtError:
        return
    assert value <= most
