"""Tests the units in which differences are reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.analysis.difference import EXACT, RELATIVE, STEPS, find_difference
from litert.analysis.tensor_measures import measure


@pytest.mark.parametrize(
    ("dtype", "found", "magnitudes", "amount", "unit"),
    [
        ("float32", [1, 2, 4.1], None, 0.025, RELATIVE),  # of the largest element
        ("float32", [1.1, 2, 4], [10, 10, 10], 0.01, RELATIVE),
        ("float32", [1, 2, np.nan], None, np.inf, RELATIVE),
        ("int8", [1, 0, 4], None, 2, STEPS),
        ("int32", [1, 2, 5], None, 1, EXACT),
        ("complex64", [1, 2, 4 + 1j], None, 0.25, RELATIVE),
        ("float32", [1, 2, 4], [0, 0, 0], 0, RELATIVE),
    ],
)
def test_a_difference_is_in_the_unit_that_arithmetic_errs_in(
    dtype: str, found: Any, magnitudes: Any, amount: float, unit: str
) -> None:
    difference = find_difference(
        np.array([1, 2, 4], dtype),
        np.array(found, dtype),
        tolerance=0.01,
        magnitudes=None if magnitudes is None else np.array(magnitudes, dtype),
    )
    assert difference.amount == pytest.approx(amount, rel=1e-5) and difference.unit == unit


def test_integers_that_are_one_float_differ() -> None:
    large = np.array([1 << 53], np.int64)
    assert find_difference(large, large, tolerance=0.01).is_allowed
    assert not find_difference(large, large + 1, tolerance=0.01).is_allowed


def test_what_is_no_number_anywhere_is_like_nothing() -> None:
    nothing = np.full(4, np.nan, np.float32)
    measures = measure(nothing, np.ones(4, np.float32))
    assert measures.cosine == 0 and measures.snr_db == -np.inf
    assert measure(nothing, nothing).cosine == 1


def test_both_parts_of_complex_numbers_are_measured() -> None:
    assert measure(np.array([1 + 2j]), np.array([1 + 5j])).greatest == 3


def test_places_are_told_where_some_elements_are_wrong_and_not_where_all_are() -> None:
    right = np.ones((2, 3), np.float32)
    wrong = right.copy()
    wrong[1, :2] = 5
    assert "2 of 6 elements exceed the limit, all within [1, 0:2]" in str(
        find_difference(right, wrong, tolerance=0.1)
    )
    assert "all in" not in str(find_difference(right, right * 5, tolerance=0.1))
