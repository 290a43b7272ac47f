"""Tests the firmware's convolutions against NumPy in double precision."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.vendor_reference.firmware_runs import Lab
from vendor_reference.firmware.program import FirmwareTuning

Array = np.ndarray[Any, np.dtype[np.float32]]


def panels(weights: Array) -> Array:
    """Packs [..., depth, columns] into the firmware's panels: [..., ceil(columns / 16), depth, 16]."""
    *outer, depth, columns = weights.shape
    padded = np.zeros((*outer, depth, -(-columns // 16) * 16), np.float32)
    padded[..., :columns] = weights
    split = padded.reshape(*outer, depth, -1, 16)
    return np.ascontiguousarray(np.moveaxis(split, -2, -3))


@dataclass(frozen=True)
class Geometry:
    """The sizes of a convolution; pairs are (height, width)."""

    batches: int = 1
    groups: int = 1
    depth: int = 3
    columns: int = 5
    size: tuple[int, int] = (7, 9)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (1, 1)
    transposed: bool = False
    extra: int = 0

    @property
    def result(self) -> tuple[int, int]:
        """Height and width of the result; `extra` adds pixels whose windows miss the input."""
        return self._result(0), self._result(1)

    def _result(self, axis: int) -> int:
        size, taps, stride = self.size[axis], self.kernel[axis], self.stride[axis]
        around = 2 * self.padding[axis]
        if self.transposed:
            return max((size - 1) * stride + taps - around, 1) + self.extra
        reach = (taps - 1) * self.dilation[axis] + 1
        return max((size + around - reach) // stride, 0) + 1 + self.extra


def convolution(g: Geometry, x: Array, w: Array, bias: Array | None) -> np.ndarray[Any, Any]:
    """Computes the convolution by its definition; `w` is [groups, kernel height, kernel width, depth, columns]."""
    (height, width), (result_height, result_width) = g.size, g.result
    y = np.zeros((g.batches, result_height, result_width, g.groups * g.columns))
    if bias is not None:
        y += bias
    for group in range(g.groups):
        inputs = x[..., group * g.depth : (group + 1) * g.depth].astype(np.float64)
        part = y[..., group * g.columns : (group + 1) * g.columns]
        for ky in range(g.kernel[0]):
            for kx in range(g.kernel[1]):
                for oy in range(result_height):
                    iy = _input(g, 0, oy, ky)
                    if iy is None or not 0 <= iy < height:
                        continue
                    for ox in range(result_width):
                        ix = _input(g, 1, ox, kx)
                        if ix is not None and 0 <= ix < width:
                            part[:, oy, ox] += inputs[:, iy, ix] @ w[group, ky, kx]
    return y


def _input(g: Geometry, axis: int, out: int, tap: int) -> int | None:
    if not g.transposed:
        return out * g.stride[axis] + tap * g.dilation[axis] - g.padding[axis]
    at, rest = divmod(out + g.padding[axis] - tap, g.stride[axis])
    return None if rest else at


def fields(g: Geometry, x: Array, w: Array, y: Array, **others: Any) -> dict[str, Any]:
    """Returns the command's fields for dense tensors."""
    height, width = g.size
    result_height, result_width = g.result
    channels, columns = x.shape[-1], y.shape[-1]
    depth = g.kernel[0] * g.kernel[1] * g.depth
    residual = {
        "residual_first": 0, "residual_batch": result_height * result_width * columns,
        "residual_row": result_width * columns, "residual_pixel": columns, "residual_mode": 0,
    }  # fmt: skip
    return {
        "input": x, "weights": panels(np.moveaxis(w, 0, -2).reshape(depth, -1)), "result": y,
        "batches": g.batches, "groups": g.groups, "depth": g.depth, "columns": g.columns,
        "input_first": 0, "input_height": height, "input_width": width,
        "input_batch": height * width * channels, "input_row": width * channels, "input_pixel": channels,
        "result_first": 0, "result_height": result_height, "result_width": result_width,
        "result_batch": result_height * result_width * columns, "result_row": result_width * columns,
        "result_pixel": columns, **residual,
        "kernel_height": g.kernel[0], "kernel_width": g.kernel[1],
        "stride_height": g.stride[0], "stride_width": g.stride[1],
        "dilation_height": g.dilation[0], "dilation_width": g.dilation[1],
        "top": g.padding[0], "left": g.padding[1], "transposed": int(g.transposed),
        "activation": 0, "low": -np.inf, "high": np.inf, **others,
    }  # fmt: skip


def tensors(g: Geometry, seed: int = 0) -> tuple[Array, Array, Array]:
    """Returns random input, weights and bias."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(g.batches, *g.size, g.groups * g.depth)).astype(np.float32)
    w = rng.normal(size=(g.groups, *g.kernel, g.depth, g.columns)).astype(np.float32)
    return x, w, rng.normal(size=g.groups * g.columns).astype(np.float32)


def check(g: Geometry, tuning: FirmwareTuning, workers: int) -> None:
    x, w, bias = tensors(g)
    y = np.full((g.batches, *g.result, g.groups * g.columns), 77, np.float32)
    Lab(tuning).run([("Convolution", fields(g, x, w, y, bias=bias))], workers)
    expected = convolution(g, x, w, bias)
    np.testing.assert_allclose(y, expected, atol=1e-6 * max(np.abs(expected).max(), 1))


TUNINGS = [FirmwareTuning(width=8, rows=6), FirmwareTuning(width=8, rows=4, scratch=1024)]
if not os.environ.get("LITERT_NPU_OPENCL"):  # PoCL 3.0 crashes on some vectors of 16 elements
    TUNINGS.append(FirmwareTuning(width=16, rows=8))

pairs = st.tuples(st.integers(1, 4), st.integers(1, 4))

geometries = st.builds(
    Geometry,
    batches=st.integers(1, 3),
    groups=st.integers(1, 3),
    depth=st.integers(1, 20),
    columns=st.integers(1, 40),
    size=st.tuples(st.integers(1, 12), st.integers(1, 30)),
    kernel=pairs,
    stride=pairs,
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    transposed=st.booleans(),
    extra=st.integers(0, 2),
)


@settings(max_examples=100, deadline=None)
@given(geometries, st.sampled_from(TUNINGS), st.integers(1, 3))
@example(Geometry(groups=2, columns=1), TUNINGS[0], 1)
@example(
    Geometry(depth=30, columns=72, size=(24, 17), kernel=(1, 1), padding=(0, 0)), TUNINGS[0], 1
)
@example(Geometry(depth=150, columns=40, size=(7, 7)), TUNINGS[0], 2)
@example(Geometry(depth=8, columns=24, size=(40, 1), kernel=(3, 1), padding=(1, 0)), TUNINGS[0], 1)
@example(Geometry(depth=33, columns=2), TUNINGS[0], 2)
@example(Geometry(groups=2, depth=33, columns=1, kernel=(2, 3), transposed=True), TUNINGS[0], 2)
def test_any_geometry_is_right(g: Geometry, tuning: FirmwareTuning, workers: int) -> None:
    check(g, tuning, workers)


@pytest.mark.parametrize(("depth", "columns"), [(7, 5), (40, 2), (7, 32), (7, 39)])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("is_clamp", [False, True])
def test_a_slope_for_each_channel_and_a_residual(
    mode: int, depth: int, columns: int, is_clamp: bool
) -> None:
    g = Geometry(depth=depth, columns=columns, size=(5, 9))
    x, w, bias = tensors(g)
    slopes = np.random.default_rng(2).normal(size=columns).astype(np.float32)
    residual = np.random.default_rng(1).normal(size=(1, *g.result, columns)).astype(np.float32)
    y = np.zeros_like(residual)
    strides = {"batch": residual[0].size, "row": residual[0, 0].size, "pixel": columns, "first": 0}
    command = fields(
        g, x, w, y, bias=bias, slopes=slopes, activation=0 if is_clamp else 4, low=-0.5, high=0.5,
        residual=residual, residual_mode=mode,
        **{f"residual_{name}": value for name, value in strides.items()},
    )  # fmt: skip
    Lab(TUNINGS[0]).run([("Convolution", command)], 2)
    expected = convolution(g, x, w, bias) + (residual if mode == 1 else 0)
    sloped = np.where(expected < 0, expected * slopes, expected)
    expected = expected.clip(-0.5, 0.5) if is_clamp else sloped
    expected += residual if mode == 2 else 0
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_tensors_may_be_parts_of_larger_ones(mode: int) -> None:
    g = Geometry(batches=2, groups=2, depth=5, columns=21, size=(9, 11), stride=(2, 1))
    x, w, bias = tensors(g)
    outside = np.full((2, 11, 13, 17), 77, np.float32)
    outside[:, 1:-1, 1:-1, 3:13] = x
    residual = np.random.default_rng(1).normal(size=(2, *g.result, 42)).astype(np.float32)
    whole = np.full((2, *g.result, 50), 77, np.float32)
    whole[..., 5:47] = residual
    height, width = g.result
    strides = {"batch": height * width * 50, "row": width * 50, "pixel": 50, "first": 5}
    command = fields(
        g, outside, w, whole, bias=bias, low=-1.0, high=2.0, residual=whole, residual_mode=mode,
        input_first=(13 + 1) * 17 + 3, input_batch=11 * 13 * 17, input_row=13 * 17, input_pixel=17,
        **{f"{name}_{n}": v for name in ("result", "residual") for n, v in strides.items()},
    )  # fmt: skip
    Lab(TUNINGS[0]).run([("Convolution", command)], 2)
    expected = convolution(g, x, w, bias) + (residual if mode == 1 else 0)
    expected = expected.clip(-1, 2) + (residual if mode == 2 else 0)
    np.testing.assert_allclose(whole[..., 5:47], expected, atol=1e-5)
    assert (whole[..., :5] == 77).all() and (whole[..., 47:] == 77).all()


def test_what_is_no_number_stays_so_in_the_pixels_that_see_it() -> None:
    g = Geometry(columns=20)
    x, w, bias = tensors(g)
    x[0, 3, 4, 1] = np.nan
    y = np.zeros((1, *g.result, 20), np.float32)
    Lab(TUNINGS[0]).run([("Convolution", fields(g, x, w, y, bias=bias, low=0.0, high=6.0))])
    expected = np.zeros(g.result, bool)
    expected[2:5, 3:6] = True
    np.testing.assert_array_equal(np.isnan(y[0]).all(axis=-1), expected)
    np.testing.assert_array_equal(np.isnan(y[0]).any(axis=-1), expected)


@pytest.mark.parametrize(("depth", "columns"), [(3, 1), (32, 1), (3, 20)])
@pytest.mark.parametrize("transposed", [False, True])
def test_weights_that_are_no_numbers_count_only_where_their_tap_sees_the_image(
    transposed: bool, depth: int, columns: int
) -> None:
    g = Geometry(
        depth=depth,
        columns=columns,
        size=(4, 7),
        kernel=(3, 4),
        stride=(2, 1),
        transposed=transposed,
    )
    x, w, bias = tensors(g)
    w[0, 0, 0, 1] = np.inf
    w[0, 2, 3, 0] = np.nan
    y = np.zeros((1, *g.result, columns), np.float32)
    Lab(TUNINGS[0]).run([("Convolution", fields(g, x, w, y, bias=bias))])
    np.testing.assert_allclose(y, convolution(g, x, w, bias), atol=1e-5)


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_results_do_not_depend_on_how_work_is_cut(kernel: tuple[int, int]) -> None:
    g = Geometry(depth=19, columns=45, size=(13, 21), kernel=kernel, padding=(0, 1))
    x, w, bias = tensors(g)
    found = []
    for workers, unit_operations in ((1, 1), (2, 1), (3, 5000)):
        tuning = FirmwareTuning(width=8, rows=6, unit_operations=unit_operations)
        y = np.zeros((1, *g.result, 45), np.float32)
        Lab(tuning).run([("Convolution", fields(g, x, w, y, bias=bias))], workers)
        found.append(y)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_padding_may_have_more_channels_than_a_worker_has_scratch() -> None:
    g = Geometry(depth=1500, columns=9, size=(2, 3), kernel=(2, 2))
    x, w, bias = tensors(g)
    y = np.zeros((1, *g.result, 9), np.float32)
    Lab(TUNINGS[1]).run([("Convolution", fields(g, x, w, y, bias=bias))])
    expected = convolution(g, x, w, bias)
    np.testing.assert_allclose(y, expected, atol=1e-5 * np.abs(expected).max())
