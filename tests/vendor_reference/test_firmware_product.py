"""Tests the firmware's matrix products against NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vendor_reference.firmware_runs import Command, Lab
from tests.vendor_reference.test_firmware_convolution import TUNINGS
from vendor_reference.firmware.program import FirmwareTuning

Array = np.ndarray[Any, np.dtype[np.float32]]
batches = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2))


def strides(shape: tuple[int, ...], is_repeated: tuple[bool, bool, bool]) -> tuple[int, ...]:
    """Returns the batch strides, in floats, of [b0, b1, b2, rows, columns]; a repeated batch has stride 0."""
    sizes = [int(np.prod(shape[dim + 1 :])) for dim in range(3)]
    return tuple(0 if r else s for r, s in zip(is_repeated, sizes, strict=True))


@settings(max_examples=100, deadline=None)
@given(
    batches,
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.integers(1, 20),
    st.integers(1, 70),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from(TUNINGS),
    st.integers(1, 3),
)
def test_batches_of_products_with_what_is_packed_in_the_run(
    sizes: tuple[int, int, int],
    repeated: tuple[bool, bool, bool],
    rows: int,
    columns: int,
    depth: int,
    is_transposed: bool,
    tuning: FirmwareTuning,
    workers: int,
) -> None:
    rng = np.random.default_rng(0)
    outer = tuple(1 if r else n for r, n in zip(repeated, sizes, strict=True))
    left = rng.normal(size=(*sizes, rows, depth)).astype(np.float32)
    right = rng.normal(size=(*outer, depth, columns)).astype(np.float32)
    bias = rng.normal(size=columns).astype(np.float32)
    stored = np.ascontiguousarray(right.swapaxes(-1, -2)) if is_transposed else right
    packed = np.full((*outer, -(-columns // 16), depth, 16), 77, np.float32)
    result = np.full((*sizes, rows, columns + 3), 77, np.float32)
    steps = (1, depth) if is_transposed else (columns, 1)
    commands: list[Command] = [
        ("Pack", {
            "input": stored, "result": packed, "rows": depth, "columns": columns, "panel": 16,
            "batches": outer, "input_batch": strides(stored.shape, (False,) * 3), "input_first": 0,
            "input_row": steps[0], "input_column": steps[1],
        }),
        ("Product", {
            "left": left, "right": packed, "bias": bias, "result": result,
            "rows": rows, "columns": columns, "depth": depth, "panel_depth": depth,
            "batches": sizes, "left_batch": strides(left.shape, (False,) * 3),
            "right_batch": strides(packed.shape, repeated), "result_batch": strides(result.shape, (False,) * 3),
            "left_first": 0, "left_row": depth, "result_first": 2, "result_row": columns + 3,
            "activation": 0, "low": -1.5, "high": np.inf,
        }),
    ]  # fmt: skip
    Lab(tuning).run(commands, workers)
    expected = np.maximum(left.astype(np.float64) @ right + bias, -1.5)
    np.testing.assert_allclose(result[..., 2:-1], expected, atol=1e-5)
    assert (result[..., :2] == 77).all() and (result[..., -1] == 77).all()
