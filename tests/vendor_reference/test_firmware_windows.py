"""Tests the firmware's window instructions against NumPy: odd shapes and strides, parts of larger tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.vendor_reference.firmware_runs import Lab
from vendor_reference.firmware.program import FirmwareTuning

Array = np.ndarray[Any, np.dtype[Any]]
GREATEST = float(np.finfo(np.float32).max)
NO_ACTIVATION = {"activation": 0, "low": -GREATEST, "high": GREATEST}


@dataclass(frozen=True)
class Window:
    """Windows along one dimension: a tap reads index `at * stride + tap * dilation - before`."""

    size: int
    taps: int
    stride: int = 1
    dilation: int = 1
    is_same: bool = True

    @property
    def reach(self) -> int:
        return (self.taps - 1) * self.dilation + 1

    @property
    def results(self) -> int:
        if self.is_same:
            return -(-self.size // self.stride)
        return max((self.size - self.reach) // self.stride + 1, 0)

    @property
    def before(self) -> int:
        missing = (self.results - 1) * self.stride + self.reach - self.size
        return max(missing, 0) // 2 if self.is_same else 0

    def places(self) -> Array:
        """Returns the input index of each tap of each result; it may be outside the input."""
        steps = np.arange(self.results) * self.stride - self.before
        return steps[:, None] + np.arange(self.taps) * self.dilation


def windows(x: Array, rows: Window, columns: Window) -> Array:
    """Returns the values of the taps as [n, y, x, taps, c]; a tap outside the input is NaN."""
    i, j = rows.places()[:, None, :, None], columns.places()[None, :, None, :]
    is_inside = (i >= 0) & (i < rows.size) & (j >= 0) & (j < columns.size)
    values = x[:, np.where(is_inside, i, 0), np.where(is_inside, j, 0)].astype(np.float64)
    values[:, ~is_inside] = np.nan
    results = (x.shape[0], rows.results, columns.results)
    return values.reshape(*results, rows.taps * columns.taps, x.shape[3])


def spread(array: Array, extra: int) -> Array:
    """Returns a larger array whose last channels are `array` and whose first `extra` channels are NaN."""
    larger = np.full((*array.shape[:-1], array.shape[-1] + extra), np.nan, array.dtype)
    larger[..., extra:] = array
    return larger


def places_of(name: str, array: Array, first: int) -> Mapping[str, Any]:
    """Returns the fields that describe the channels of `array` from `first` on."""
    _, height, width, channels = array.shape
    return {
        name: array,
        f"{name}_first": first,
        f"{name}_pixel": channels,
        f"{name}_row": channels * width,
        f"{name}_batch": channels * width * height,
    }


def image_fields(x: Array, result: Array, first: int = 0) -> Mapping[str, Any]:
    return {
        **places_of("input", x, first),
        **places_of("result", result, first),
        "batches": x.shape[0],
        "input_height": x.shape[1],
        "input_width": x.shape[2],
        "result_height": result.shape[1],
        "result_width": result.shape[2],
        "channels": result.shape[3] - first,
    }


def run(name: str, fields: Mapping[str, Any], width: int, workers: int) -> None:
    Lab(FirmwareTuning(width=width)).run([(name, fields)], workers)


CLAMP, TANH, HARD_SWISH, PRELU = 0, 1, 3, 4
"""The numbers of the activations in core.cl."""

shapes = st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(1, 12), st.integers(1, 40))
machines = st.tuples(st.sampled_from([8, 16]), st.integers(1, 3))


@given(
    shape=shapes,
    taps=st.tuples(st.sampled_from([1, 2, 3, 5, 7]), st.sampled_from([1, 2, 3, 5, 7])),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    is_same=st.booleans(),
    multiplier=st.sampled_from([1, 1, 2, 5]),
    has_bias=st.booleans(),
    activation=st.sampled_from([CLAMP, HARD_SWISH, PRELU, TANH]),
    residual_mode=st.integers(0, 2),
    extra=st.integers(0, 3),
    machine=machines,
)
@example((1, 12, 12, 40), (3, 3), (1, 1), (1, 1), True, 1, True, CLAMP, 2, 1, (8, 2))
@example((1, 12, 12, 40), (3, 3), (2, 2), (1, 1), True, 1, True, PRELU, 0, 0, (8, 2))
@example((1, 12, 12, 24), (5, 5), (1, 1), (1, 1), False, 1, False, HARD_SWISH, 1, 0, (8, 3))
@example((2, 12, 12, 72), (5, 5), (2, 2), (1, 1), True, 1, True, TANH, 1, 0, (16, 1))
@example((1, 12, 11, 4), (3, 3), (1, 1), (1, 1), True, 1, True, PRELU, 1, 2, (8, 1))
@example((1, 30, 30, 3), (30, 30), (1, 1), (1, 1), True, 5, True, PRELU, 2, 2, (16, 2))
@settings(max_examples=60, deadline=None)
def test_a_depthwise_convolution_is_numpys(
    shape: tuple[int, int, int, int],
    taps: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    is_same: bool,
    multiplier: int,
    has_bias: bool,
    activation: int,
    residual_mode: int,
    extra: int,
    machine: tuple[int, int],
) -> None:
    rows, columns = (
        Window(shape[1 + d], taps[d], strides[d], dilations[d], is_same) for d in (0, 1)
    )
    channels = shape[3] * multiplier
    random = np.random.default_rng(sum(shape))
    x = random.normal(size=shape).astype(np.float32)
    weights = random.normal(size=(*taps, channels)).astype(np.float32)
    bias = random.normal(size=channels).astype(np.float32) if has_bias else None
    slopes = random.normal(size=channels).astype(np.float32)
    result = np.zeros((shape[0], rows.results, columns.results, channels + extra), np.float32)
    residual = random.normal(size=(*result.shape[:3], channels)).astype(np.float32)
    fields = {
        **image_fields(spread(x, extra), result, extra),
        **places_of("residual", spread(residual, extra), extra),
        **{"weights": weights, "bias": bias, "multiplier": multiplier},
        **{"slopes": slopes if activation == PRELU else None, "residual_mode": residual_mode},
        **{
            "kernel_height": taps[0],
            "kernel_width": taps[1],
            "top": rows.before,
            "left": columns.before,
        },
        **{"stride_height": strides[0], "stride_width": strides[1]},
        **{"dilation_height": dilations[0], "dilation_width": dilations[1]},
        **{"activation": activation, "low": -1.5, "high": 6.0},
    }
    run("Depthwise", fields, *machine)
    taken = np.repeat(windows(x, rows, columns), multiplier, axis=-1)
    sums = np.nansum(taken * weights.reshape(-1, channels), axis=3)
    sums += 0 if bias is None else bias
    sums += residual if residual_mode == 1 else 0
    expected = {
        CLAMP: lambda: np.clip(sums, -1.5, 6),
        HARD_SWISH: lambda: sums * np.clip(sums + 3, 0, 6) / 6,
        PRELU: lambda: np.where(sums < 0, sums * slopes, sums),
        TANH: lambda: np.tanh(sums),
    }[activation]()
    expected += residual if residual_mode == 2 else 0
    tolerance = max(2e-5, 2e-7 * taps[0] * taps[1])
    np.testing.assert_allclose(result[..., extra:], expected, rtol=1e-6, atol=tolerance)
    assert not result[..., :extra].any()


@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 20), st.integers(1, 20), st.integers(1, 80)),
    taps=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    is_same=st.booleans(),
    is_mean=st.booleans(),
    extra=st.integers(0, 3),
    machine=machines,
)
@example((1, 12, 13, 44), (2, 2), (2, 2), True, False, 1, (8, 2))
@settings(max_examples=60, deadline=None)
def test_pooling_is_numpys(
    shape: tuple[int, int, int, int],
    taps: tuple[int, int],
    strides: tuple[int, int],
    is_same: bool,
    is_mean: bool,
    extra: int,
    machine: tuple[int, int],
) -> None:
    rows, columns = (Window(shape[1 + d], taps[d], strides[d], is_same=is_same) for d in (0, 1))
    x = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    result = np.zeros((shape[0], rows.results, columns.results, shape[3] + extra), np.float32)
    fields = {
        **image_fields(spread(x, extra), result, extra),
        **{
            "window_height": taps[0],
            "window_width": taps[1],
            "top": rows.before,
            "left": columns.before,
        },
        **{"stride_height": strides[0], "stride_width": strides[1], "is_mean": is_mean},
        **NO_ACTIVATION,
    }
    run("Pool", fields, *machine)
    if result.size:
        taken = windows(x, rows, columns)
        expected = np.nanmean(taken, axis=3) if is_mean else np.nanmax(taken, axis=3)
        np.testing.assert_allclose(result[..., extra:], expected, atol=1e-6)
    assert not result[..., :extra].any()


def resize_points(size: int, results: int, align: bool, half: bool) -> Array:
    """Returns the input positions from which a resize reads, computed in float32 as in stock LiteRT."""
    one = np.float32(1)
    scale = one * (size - 1) / (results - 1) if align and results > 1 else one * size / results
    points: Array = (np.arange(results, dtype=np.float32) + np.float32(half / 2)) * np.float32(
        scale
    )
    return points


@given(
    shape=shapes,
    size=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    centers=st.sampled_from([(False, False), (True, False), (False, True)]),
    is_nearest=st.booleans(),
    extra=st.integers(0, 3),
    machine=machines,
)
@settings(max_examples=60, deadline=None)
def test_a_resized_image_is_numpys(
    shape: tuple[int, int, int, int],
    size: tuple[int, int],
    centers: tuple[bool, bool],
    is_nearest: bool,
    extra: int,
    machine: tuple[int, int],
) -> None:
    align, half = centers
    x = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    result = np.zeros((shape[0], *size, shape[3] + extra), np.float32)
    choices = {"is_nearest": is_nearest, "align_corners": align, "half_pixel_centers": half}
    run("Resize", {**image_fields(spread(x, extra), result, extra), **choices}, *machine)
    expected = x.astype(np.float64)
    for dim in (1, 2):
        at = resize_points(shape[dim], size[dim - 1], align, half)
        if is_nearest:
            index = np.floor(at + np.float32(0.5)) if align else np.floor(at)
            expected = expected.take(np.clip(index, 0, shape[dim] - 1).astype(int), dim)
            continue
        at = np.clip(at - np.float32(half / 2), 0, shape[dim] - 1)
        low = np.floor(at).astype(int)
        high, part = (
            np.ceil(at).astype(int),
            np.expand_dims(at - low, [d for d in range(3) if d != dim - 1]),
        )
        expected = expected.take(low, dim) * (1 - part) + expected.take(high, dim) * part
    np.testing.assert_allclose(result[..., extra:], expected, atol=2e-6)
    assert not result[..., :extra].any()


@pytest.mark.parametrize("channels", [3, 40])
def test_what_is_no_number_goes_through_a_clamp_and_is_never_the_greatest(channels: int) -> None:
    x = np.ones((1, 8, 8, channels), np.float32)
    x[0, 2, 3] = np.nan
    convolved, pooled = np.zeros_like(x), np.zeros_like(x)
    shared = {
        "top": 0,
        "left": 0,
        "stride_height": 1,
        "stride_width": 1,
        "activation": 0,
        "low": 0.0,
        "high": 6.0,
    }
    kernel = {
        "kernel_height": 1,
        "kernel_width": 1,
        "dilation_height": 1,
        "dilation_width": 1,
        "multiplier": 1,
        **places_of("residual", convolved, 0),
        "residual_mode": 0,
    }
    weights = np.full((1, 1, channels), 2, np.float32)
    window = {"window_height": 2, "window_width": 1, "is_mean": 0}
    commands = [
        (
            "Depthwise",
            {**image_fields(x, convolved), "weights": weights, **kernel, **shared},
        ),
        ("Pool", {**image_fields(x, pooled), **window, **shared}),
    ]
    Lab().run(commands)
    np.testing.assert_array_equal(convolved, x * 2)
    np.testing.assert_array_equal(pooled, np.ones_like(x))
