"""Compares ops on many NaN and infinities, in operands and in weights, with stock LiteRT's plain kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.vendor_reference.executables import Array
from tests.vendor_reference.random_ops import Given, OpCase, ints
from tests.vendor_reference.test_library_against_stock import difference, run_npu, run_stock

Random = np.random.Generator
Make = Callable[[Random], Iterable[OpCase]]

_ONCE = {"stride_h": 1, "stride_w": 1, "padding": "VALID"}
_DILATED = {"dilation_h_factor": 1, "dilation_w_factor": 1}
_UNARY = """ABS CEIL COS ELU EXP FLOOR GELU HARD_SWISH LOG LOGISTIC NEG RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1
ROUND RSQRT SIN SQRT SQUARE TANH"""
_FUSED = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def specials(random: Random, *shape: int, share: float = 0.1) -> Array:
    """Returns random numbers around 0, with a share of NaN, infinities and zeros of both signs."""
    values = (random.normal(size=shape) * 2).astype(np.float32)
    is_special = random.random(shape) < share
    chosen = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], int(is_special.sum()))
    values[is_special] = chosen
    return values


def _weights(random: Random, *shape: int) -> Given:
    return Given(specials(random, *shape, share=0.04), is_constant=True)


def _windows(random: Random) -> Iterator[OpCase]:
    """Yields ops with windows. CONV_2D has no padding, because stock LiteRT multiplies padding by the weights."""
    for fused in _FUSED:
        options = {**_ONCE, "fused_activation_function": fused}
        same = {**options, "padding": "SAME"}
        x = Given(specials(random, 1, 7, 6, 3, share=0.05))
        filters, bias = _weights(random, 5, 3, 3, 3), _weights(random, 5)
        depthwise = {**same, **_DILATED, "depth_multiplier": 1}
        yield OpCase("CONV_2D", [x, filters, bias], {**options, **_DILATED})
        yield OpCase(
            "DEPTHWISE_CONV_2D", [x, _weights(random, 1, 3, 3, 3), _weights(random, 3)], depthwise
        )
        yield OpCase("TRANSPOSE_CONV", [ints(1, 7, 6, 5), filters, x, bias], same)
        for name in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
            yield OpCase(name, [x], {**same, "filter_height": 3, "filter_width": 2})


def _products(random: Random) -> Iterator[OpCase]:
    rows = Given(specials(random, 9, 33, share=0.02))
    for fused in _FUSED:
        options = {"fused_activation_function": fused}
        yield OpCase(
            "FULLY_CONNECTED", [rows, _weights(random, 20, 33), _weights(random, 20)], options
        )
    for is_constant in (False, True):
        right = Given(specials(random, 33, 20, share=0.02), is_constant)
        yield OpCase("BATCH_MATMUL", [rows, right], {"adj_x": False, "adj_y": False})


def _rows(random: Random) -> Iterator[OpCase]:
    """Yields ops on rows of many sizes, most of which are not a multiple of a vector's size."""
    for size in (3, 7, 9, 17, 40, 67, 140):
        x = Given(specials(random, 40, size))
        yield OpCase("SOFTMAX", [x], {"beta": 1.0})
        yield OpCase("LOG_SOFTMAX", [x])
        yield OpCase("L2_NORMALIZATION", [x])
        for axis in (0, 1):
            for name in ("SUM", "MEAN", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
                yield OpCase(name, [x, ints(axis)], {"keep_dims": False})
            chosen = Given(np.array(axis, np.int32), is_constant=True)
            numbers = Given(np.nan_to_num(x.array, nan=0, posinf=np.inf, neginf=-np.inf))
            for name in (
                "ARG_MAX",
                "ARG_MIN",
            ):  # stock LiteRT's result for NaN depends on the CPU's vectors
                yield OpCase(name, [numbers, chosen], {"output_type": "INT32"}, ["int32"])


def _elements(random: Random) -> Iterator[OpCase]:
    x, other = (
        Given(specials(random, 40, 30, share=0.4)),
        Given(specials(random, 40, 30, share=0.4)),
    )
    for name in _UNARY.split():
        yield OpCase(name, [x])
    for name in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "POW"):
        yield OpCase(name, [x, other])
    for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        yield OpCase(name, [x, other], {}, ["bool"])
    for name in ("ADD", "SUB", "MUL", "DIV"):
        for fused in _FUSED:
            yield OpCase(name, [x, other], {"fused_activation_function": fused})
    yield OpCase("PRELU", [x, _weights(random, 30)])
    yield OpCase("LEAKY_RELU", [x], {"alpha": 0.25})
    for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        image = Given(specials(random, 1, 7, 6, 3))
        yield OpCase(name, [image, ints(9, 11)], {"align_corners": False})


def _casts(random: Random) -> Iterator[OpCase]:
    """Yields casts of special numbers and of numbers at and beyond the limits of integer types."""
    limits = [float(2**bits - less) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for less in (0, 1)]
    nearest = np.nextafter(np.array(limits, np.float32), np.float32(0))
    values = np.concatenate([specials(random, 200, share=0.4), limits, nearest, [1e30]]).astype(
        np.float32
    )
    for source in ("float32", "float64"):
        for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "bool"):
            options = {"in_data_type": source.upper(), "out_data_type": dtype.upper()}
            given = values if dtype[0] == "u" else np.concatenate([values, -values])
            yield OpCase("CAST", [Given(given.astype(source))], options, [dtype])


@pytest.mark.each_driver
@pytest.mark.parametrize("make", [_windows, _products, _rows, _elements, _casts])
def test_what_is_no_number_is_stocks(tmp_path: Path, make: Make) -> None:
    drawn = list(make(np.random.default_rng(5)))
    expected = run_stock(drawn)
    found = run_npu(tmp_path, drawn, [array.shape for results in expected for array in results])
    problems = [
        f"{case}: {problem}"
        for case, (wanted,), (result,) in zip(drawn, expected, found, strict=True)
        if (problem := difference(case, wanted, result))
    ]
    assert not problems, "\n".join(problems)
