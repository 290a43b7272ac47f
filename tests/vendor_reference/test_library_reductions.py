"""Tests the library's reductions, extremes and softmax with any number of firmware workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from tests.vendor_reference.executables import Array
from tests.vendor_reference.library_runs import Case, run_in_lab
from tests.vendor_reference.test_library_moves import WIDTHS, WORKERS, ints, lab, made
from vendor_reference.compiler.library.views import View

REDUCTIONS: dict[str, Any] = {
    "SUM": np.sum,
    "MEAN": np.mean,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
}


def reduced(name: str, x: Array, axes: Sequence[int], keeps: bool = False) -> Case:
    shape = np.sum(x, tuple(axes), keepdims=keeps).shape
    case, _ = made(name, [x], [shape], [ints(*axes)], keep_dims=keeps)
    return case


def softmax(x: Array, beta: float = 1) -> Case:
    return made("SOFTMAX", [x], [x.shape], beta=beta)[0]


def positive(shape: Sequence[int]) -> Array:
    return np.random.default_rng(0).random(tuple(shape), np.float32)


def exact_softmax(x: Array, beta: float) -> Array:
    powers = np.exp((x.astype(np.float64) - x.max(-1, keepdims=True)) * beta)
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result


def assert_close(found: Array, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max(initial=0))


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_reductions_of_any_shape_are_numpys(data: st.DataObject) -> None:
    cases, expected = [], []
    for rank in (1, 2, 3, 4):
        most = {1: 9000, 2: 300}.get(rank, 40)
        x = positive(data.draw(st.lists(st.integers(1, most), min_size=rank, max_size=rank)))
        axes = data.draw(st.sets(st.integers(0, rank - 1), min_size=1))
        keeps = data.draw(st.booleans())
        for name, function in REDUCTIONS.items():
            cases.append(reduced(name, x, list(axes), keeps))
            expected.append(function(x.astype(np.float64), tuple(axes), keepdims=keeps))
        beta = data.draw(st.sampled_from([1.0, 0.5]))
        cases.append(softmax(x, beta))
        expected.append(exact_softmax(x, beta))
    width, workers = data.draw(st.sampled_from(WIDTHS)), data.draw(st.sampled_from(WORKERS))
    for found, wanted in zip(run_in_lab(lab(width), cases, workers), expected, strict=True):
        assert_close(found, wanted)


@pytest.mark.parametrize("width", WIDTHS)
def test_results_do_not_depend_on_the_number_of_workers(width: int) -> None:
    long, tall = positive((300_001,)), positive((20_003, 16))
    cases = [
        reduced("SUM", long, [0]),
        reduced("MEAN", tall, [0]),
        reduced("REDUCE_MAX", tall, [0]),
    ]
    cases += [softmax(long[None, :50_001]), softmax(tall[:999])]
    expected = [long.sum(dtype=np.float64), tall.mean(0, np.float64), tall.max(0)]
    expected += [exact_softmax(long[None, :50_001], 1), exact_softmax(tall[:999], 1)]
    results = [run_in_lab(lab(width), cases, workers) for workers in WORKERS]
    for one, two, three, wanted in zip(*results, expected, strict=True):
        assert_close(one, wanted)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)


def test_a_long_sum_is_shared() -> None:
    """Checks that each part gets its own result, and that a second command reduces these results."""
    from vendor_reference.compiler.library.library_op import library_ops

    spec = library_ops()["SUM"].kernel(reduced("SUM", positive((300_001,)), [0]).placed())
    parts = [dict(command.fields)["parts"] for command in spec.commands]
    assert parts == [8, 1]


def test_operands_and_results_lie_anywhere(device: Any) -> None:
    x = positive((2, 5, 6, 20))
    float32, channels_first = ElementType.FLOAT32, (0, 3, 1, 2)
    part = View.dense(float32, (2, 5, 7, 33)).part((0, 0, 1, 9), x.shape)
    wide = View.dense(float32, (2, 30)).part((0, 7), (2, 20))
    turned = View.dense(float32, x.shape, channels_first)
    mean = reduced("MEAN", x, [1, 2])
    soft = softmax(x)
    cases = [
        Case(mean.op, [x], [part, wide]),
        Case(mean.op, [x], [turned, wide]),
        Case(soft.op, [x], [part, turned]),
        Case(soft.op, [x], [turned, part]),
    ]
    means, softmaxes = x.mean((1, 2), np.float64), exact_softmax(x, 1)
    for width in WIDTHS:
        found = run_in_lab(lab(width), cases, 2)
        for result, wanted in zip(found, [means] * 2 + [softmaxes] * 2, strict=True):
            assert_close(result, wanted)


def test_what_is_no_number_makes_extremes_forget_what_was_before_it() -> None:
    """Checks NaN as in stock LiteRT's plain kernels, which keep a value if a comparison holds, else the other."""
    x = positive((3, 70))
    x[:, 40], x[1, 69] = np.nan, np.nan
    cases = [reduced("REDUCE_MAX", x, [1]), reduced("REDUCE_MIN", x.T.copy(), [0])]
    found = run_in_lab(lab(8), cases, 2)
    for result, wanted in zip(found, (x[:, 41:].max(1), x[:, 41:].min(1)), strict=True):
        wanted[1] = np.nan
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_are_reduced_as_stocks(dtype: str) -> None:
    x = np.array([[-7, -8, 4], [2**31 - 1, 2**31 - 1, 2]], dtype)
    cases = [reduced(name, x, [1]) for name in ("SUM", "MEAN", "REDUCE_PROD", "REDUCE_MIN")]
    found = run_in_lab(lab(8), cases, 2)
    means = [-3, (2**32) // 3]
    wanted = [x.sum(1, dtype=dtype), np.array(means), x.prod(1, dtype=dtype), x.min(1)]
    for result, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(result, expected.astype(dtype))
