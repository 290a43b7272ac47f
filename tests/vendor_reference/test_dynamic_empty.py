"""Tests ops that read an image without pixels from another op: a clear error, or stock LiteRT's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from litert import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Tensor
from tests.vendor_reference.test_dynamic_library import Network, check_runs, random

pytestmark = pytest.mark.each_driver

ANY = -1
IMAGE = (ANY, ANY, ANY, 2)
BOUND = (2, 6, 6, 2)
NO_ROWS, NO_COLUMNS, GOOD = (
    {"x": random(1, 1, 4, 2)},
    {"x": random(2, 4, 1, 2)},
    {"x": random(1, 4, 5, 2)},
)
"""Inputs from which a 2 x 2 pool makes an image without rows, one without columns, and one with pixels."""


def _pooled(n: Network) -> Tensor:
    options = {"filter_height": 2, "filter_width": 2, "stride_h": 1, "stride_w": 1}
    return n.op("MAX_POOL_2D", [n.input("x", *IMAGE)], *IMAGE, padding="VALID", **options)


def _row(n: Network, x: Tensor, index: int) -> Tensor:
    bounds = [n.ints(0, index), n.ints(0, 0), n.ints(1, 1)]
    return n.op("STRIDED_SLICE", [x, *bounds], ANY, ANY, 2, end_mask=1, shrink_axis_mask=2)


def _reshaped(n: Network, x: Tensor) -> Tensor:
    """Reshapes an image to a matrix with the image's number of rows."""
    shape = n.op("SHAPE", [x], 4, dtype="int32", out_type="INT32")
    rows = n.op("STRIDED_SLICE", [shape, n.ints(1), n.ints(2), n.ints(1)], 1, dtype="int32")
    shape = n.op("CONCATENATION", [rows, n.ints(-1)], 2, dtype="int32", axis=0)
    return n.op("RESHAPE", [x, shape], ANY, ANY)


Make = Callable[[Network, Tensor], Tensor]

ENDED: Mapping[str, Make] = {
    "RESIZE_BILINEAR": lambda n, x: n.op("RESIZE_BILINEAR", [x, n.ints(3, 3)], ANY, 3, 3, 2),
    "RESIZE_NEAREST_NEIGHBOR": lambda n, x: n.op(
        "RESIZE_NEAREST_NEIGHBOR", [x, n.ints(3, 3)], ANY, 3, 3, 2
    ),
    "ARG_MAX": lambda n, x: n.op(
        "ARG_MAX", [x, n.ints(1)], ANY, ANY, 2, dtype="int32", output_type="INT32"
    ),
    "MIRROR_PAD": lambda n, x: n.op(
        "MIRROR_PAD", [x, n.ints([0, 0], [1, 0], [0, 0], [0, 0])], *IMAGE, mode="SYMMETRIC"
    ),
    "the first row": lambda n, x: _row(n, x, 0),
    "the last row": lambda n, x: _row(n, x, -1),
}

GOES_ON: Mapping[str, Make] = {
    "RELU": lambda n, x: n.op("RELU", [x], *IMAGE),
    "SOFTMAX": lambda n, x: n.op("SOFTMAX", [x], *IMAGE, beta=1.0),
    "MEAN": lambda n, x: n.op("MEAN", [x, n.ints(1, 2)], ANY, 2),
    "PAD": lambda n, x: n.op("PAD", [x, n.ints([0, 0], [1, 0], [0, 2], [0, 0])], *IMAGE),
    "TRANSPOSE": lambda n, x: n.op("TRANSPOSE", [x, n.ints(0, 3, 1, 2)], ANY, 2, ANY, ANY),
    "BATCH_MATMUL": lambda n, x: n.op("BATCH_MATMUL", [x, x], ANY, ANY, ANY, ANY, adj_y=True),
    "RESHAPE": _reshaped,
    "SHAPE": lambda n, x: n.op("SHAPE", [x], 4, dtype="int32", out_type="INT32"),
}


@pytest.mark.parametrize("case", ENDED)
def test_a_run_ends_where_an_op_needs_a_pixel(tmp_path: Path, case: str) -> None:
    n = Network()
    report = n.compile(tmp_path, {"x": BOUND}, ENDED[case](n, _pooled(n)))
    with CompiledModel.from_file(str(tmp_path / "out.tflite")) as model:
        model.run(GOOD)
        with pytest.raises(LiteRtError, match=" is 0") as error:
            model.run(NO_ROWS)
        assert error.value.status is Status.INVALID_ARGUMENT
    check_runs(tmp_path, [GOOD], report)


@pytest.mark.parametrize("case", GOES_ON)
def test_a_run_goes_on_where_no_pixel_is_needed(tmp_path: Path, case: str) -> None:
    n = Network()
    made = GOES_ON[case](n, _pooled(n))
    bounds = {"x": BOUND, **({made.name: (6, 99)} if case == "RESHAPE" else {})}
    report = n.compile(tmp_path, bounds, made)
    check_runs(tmp_path, [NO_ROWS, GOOD, NO_COLUMNS, GOOD], report)


@pytest.mark.parametrize("shape", [(0, 4, 4, 2), (1, 0, 4, 2), (1, 4, 0, 2)])
def test_an_input_without_elements_is_an_error(tmp_path: Path, shape: tuple[int, ...]) -> None:
    n = Network()
    n.compile(tmp_path, {"x": BOUND}, n.op("TANH", [n.input("x", *IMAGE)], *IMAGE))
    with CompiledModel.from_file(str(tmp_path / "out.tflite")) as model:
        with pytest.raises(
            LiteRtError, match="Tensors without elements are not supported"
        ) as error:
            model.run({"x": np.zeros(shape, np.float32)})
        assert error.value.status is Status.INVALID_ARGUMENT
        model.run(GOOD)
