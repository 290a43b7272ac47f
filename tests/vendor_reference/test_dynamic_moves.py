"""Tests ops that move data on dynamic shapes against stock LiteRT's interpreter at each shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from litert import CompiledModel
from litert.core.errors import LiteRtError
from litert.model.graph import Tensor
from tests.vendor_reference.test_dynamic_library import Network, check_runs, random

pytestmark = pytest.mark.each_driver

ANY = -1
BOUND = (4, 9, 7, 12)
LEAST = (1, 3, 3, 12)
"""The smallest sizes of the input; no mirror padding is wider than they are."""

Made: TypeAlias = "Tensor | Sequence[Tensor]"


def _sliced(
    n: Network, x: Tensor, parts: Sequence[tuple[int, int, int]], *pattern: int, **masks: int
) -> Tensor:
    bounds = [n.ints(*numbers) for numbers in zip(*parts, strict=True)]
    return n.op("STRIDED_SLICE", [x, *bounds], *pattern, **masks)


def _own_shape(n: Network, x: Tensor, *dims: int) -> Tensor:
    """Adds the shape that Keras writes for a reshape with a dynamic batch: some sizes of a tensor, then -1."""
    shape = n.op("SHAPE", [x], 4, dtype="int32", out_type="INT32")
    sizes = [
        n.op("STRIDED_SLICE", [shape, n.ints(d), n.ints(d + 1), n.ints(1)], dtype="int32", shrink_axis_mask=1)
        for d in dims
    ]  # fmt: skip
    left = n.builder.constant("left", np.array(-1, np.int32))
    return n.op("PACK", [*sizes, left], len(dims) + 1, dtype="int32", values_count=len(dims) + 1)


OPS: Mapping[str, Callable[[Network, Tensor], Made]] = {
    "RESHAPE": lambda n, x: [
        n.op("RESHAPE", [x, n.ints(-1, 4)], ANY, 4),
        n.op("RESHAPE", [x, n.ints(-1)], ANY),
        n.op("RESHAPE", [x, _own_shape(n, x, 0, 1)], ANY, ANY, ANY),
    ],
    "SQUEEZE": lambda n, x: n.op(
        "SQUEEZE", [n.op("RESHAPE", [x, n.ints(-1, 1, 12, 1)], ANY, 1, 12, 1)], ANY, 12, squeeze_dims=[1, 3]
    ),
    "EXPAND_DIMS": lambda n, x: [
        n.op("EXPAND_DIMS", [x, n.ints(1)], ANY, 1, ANY, ANY, 12),
        n.op("EXPAND_DIMS", [x, n.ints(-1)], ANY, ANY, ANY, 12, 1),
    ],
    "TRANSPOSE": lambda n, x: [
        n.op("TRANSPOSE", [x, n.ints(0, 3, 1, 2)], ANY, 12, ANY, ANY),
        n.op("TRANSPOSE", [x, n.ints(2, 0, 1, 3)], ANY, ANY, ANY, 12),
        n.op("TRANSPOSE", [x, n.ints(3, 2, 1, 0)], 12, ANY, ANY, ANY),
    ],
    "CONCATENATION": lambda n, x: [
        n.op("CONCATENATION", [x, n.op("ABS", [x], ANY, ANY, ANY, 12), x], ANY, ANY, ANY, 36, axis=3),
        n.op("CONCATENATION", [x, x], ANY, ANY, ANY, 12, axis=1),
        n.op("CONCATENATION", [x, x], ANY, ANY, ANY, 12, axis=0),
    ],
    "PAD": lambda n, x: [
        n.op("PAD", [x, n.ints([0, 0], [1, 2], [3, 0], [0, 0])], ANY, ANY, ANY, 12),
        n.op("PAD", [x, n.ints([0, 1], [0, 0], [0, 0], [0, 4])], ANY, ANY, ANY, 16),
    ],
    "PADV2": lambda n, x: n.op(
        "PADV2", [x, n.ints([1, 1], [1, 0], [0, 2], [0, 3]), n.builder.constant("v", np.array(7.5, np.float32))],
        ANY, ANY, ANY, 15,
    ),
    "MIRROR_PAD": lambda n, x: [
        n.op("MIRROR_PAD", [x, n.ints([0, 0], [2, 1], [1, 2], [0, 0])], ANY, ANY, ANY, 12, mode="REFLECT"),
        n.op("MIRROR_PAD", [x, n.ints([0, 0], [0, 3], [3, 0], [2, 0])], ANY, ANY, ANY, 14, mode="SYMMETRIC"),
    ],
    "SLICE": lambda n, x: [
        n.op("SLICE", [x, n.ints(0, 0, 0, 3), n.ints(-1, -1, -1, 6)], ANY, ANY, ANY, 6),
        n.op("SLICE", [x, n.ints(0, 1, 2, 3), n.ints(1, -1, 1, -1)], 1, ANY, 1, 9),
    ],
    "STRIDED_SLICE": lambda n, x: [
        _sliced(n, x, [(0, 0, 1), (0, 0, 2), (1, 2**31 - 1, 1), (1, 12, 3)], ANY, ANY, ANY, 4,
                begin_mask=3, end_mask=3),
        _sliced(n, x, [(-1, 0, 1), (0, -1, 1), (0, 0, -1), (4, 8, 1)], ANY, ANY, 4,
                begin_mask=4, end_mask=4, shrink_axis_mask=1),
        _sliced(n, x, [(0, 0, 1), (2, 3, 1), (0, 0, 1)], ANY, 1, ANY, 12,
                begin_mask=1, end_mask=1, shrink_axis_mask=2, new_axis_mask=4),
    ],
    "SPLIT": lambda n, x: n.parts("SPLIT", [n.ints(3), x], [(ANY, ANY, ANY, 4)] * 3, num_splits=3),
    "SPLIT_V": lambda n, x: [
        *n.parts("SPLIT_V", [x, n.ints(2, -1, 3), n.ints(3)], [(ANY, ANY, ANY, d) for d in (2, 7, 3)],
                 num_splits=3),
        *n.parts("SPLIT_V", [x, n.ints(1, -1), n.ints(1)], [(ANY, 1, ANY, 12), (ANY, ANY, ANY, 12)], num_splits=2),
    ],
    "PACK": lambda n, x: [
        n.op("PACK", [x, x, n.op("NEG", [x], ANY, ANY, ANY, 12)], 3, ANY, ANY, ANY, 12, values_count=3, axis=0),
        n.op("PACK", [x, x], ANY, ANY, ANY, 12, 2, values_count=2, axis=4),
    ],
    "UNPACK": lambda n, x: n.parts("UNPACK", [x], [(ANY, ANY, ANY)] * 12, num=12, axis=3),
    "GATHER": lambda n, x: [
        n.op("GATHER", [x, n.ints(2, 0, 2)], ANY, 3, ANY, 12, axis=1),
        n.op("GATHER", [x, n.ints([11, 0], [5, 5])], ANY, ANY, ANY, 2, 2, axis=3),
    ],
    "TILE": lambda n, x: n.op("TILE", [x, n.ints(2, 1, 3, 2)], ANY, ANY, ANY, 24),
    "DEPTH_TO_SPACE": lambda n, x: n.op("DEPTH_TO_SPACE", [x], ANY, ANY, ANY, 3, block_size=2),
    "ARG_MAX": lambda n, x: [
        n.op("ARG_MAX", [x, n.ints(3)], ANY, ANY, ANY, dtype="int32", output_type="INT32"),
        n.op("ARG_MAX", [x, n.ints(1)], ANY, ANY, 12, dtype="int64", output_type="INT64"),
    ],
    "ARG_MIN": lambda n, x: n.op("ARG_MIN", [x, n.ints(0)], ANY, ANY, 12, dtype="int32", output_type="INT32"),
    "SELECT_V2": lambda n, x: n.op(
        "SELECT_V2", [n.op("LESS", [x, n.op("COS", [x], ANY, ANY, ANY, 12)], ANY, ANY, ANY, 12, dtype="bool"), x,
                      n.builder.constant("other", np.ones((1, 12), np.float32))], ANY, ANY, ANY, 12,
    ),
    "CAST": lambda n, x: n.op("CAST", [x], ANY, ANY, ANY, 12, dtype="int32", out_data_type="INT32"),
    "SHAPE": lambda n, x: n.op("SHAPE", [x], 4, dtype="int64", out_type="INT64"),
}  # fmt: skip


def shapes_within(seed: int, count: int = 4) -> list[tuple[int, ...]]:
    """Returns the smallest and the largest shape, some random shapes between them, and the smallest again."""
    drawn = np.random.default_rng(seed).integers(LEAST, np.add(BOUND, 1), (count, 4))
    return [LEAST, BOUND, *(tuple(map(int, shape)) for shape in drawn), LEAST]


@pytest.mark.parametrize("name", OPS)
def test_an_op_is_stocks_at_each_shape(tmp_path: Path, name: str) -> None:
    network = Network()
    x = network.input("x", ANY, ANY, ANY, 12)
    made = OPS[name](network, network.op("NEG", [x], ANY, ANY, ANY, 12))
    outputs = [made] if isinstance(made, Tensor) else made
    report = network.compile(tmp_path, {"x": BOUND}, *outputs)
    check_runs(tmp_path, [{"x": random(*shape)} for shape in shapes_within(len(name))], report)


def test_spaces_become_depth(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", ANY, ANY, ANY, 3)
    made = network.op("SPACE_TO_DEPTH", [x], ANY, ANY, ANY, 12, block_size=2)
    report = network.compile(tmp_path, {"x": (2, 8, 6, 3)}, made)
    shapes = [(1, 2, 2, 3), (2, 8, 6, 3), (1, 4, 6, 3)]
    check_runs(tmp_path, [{"x": random(*shape)} for shape in shapes], report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(LiteRtError, match="but the two sizes must be equal"),
    ):
        model.run({"x": random(1, 3, 2, 3)})


def test_a_dimension_of_1_is_repeated(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", ANY, 1, 3)
    made = network.op("BROADCAST_TO", [x, network.ints(2, 5, 4, 3)], 2, 5, 4, 3, version=2)
    report = network.compile(tmp_path, {"x": (5, 1, 3)}, made)
    check_runs(tmp_path, [{"x": random(size, 1, 3)} for size in (1, 5, 1)], report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(LiteRtError, match="must be equal, or one of them must be 1"),
    ):
        model.run({"x": random(2, 1, 3)})


def test_parts_of_an_open_number_of_images_are_stocks(tmp_path: Path) -> None:
    """Checks ops that write and read parts of a larger tensor in place, and layers that cannot do this."""
    network = Network()
    x, y = network.input("x", ANY, 6, 5, 4), network.input("y", ANY, 6, 5, 3)
    a, b = network.op("NEG", [x], ANY, 6, 5, 4), network.op("ABS", [y], ANY, 6, 5, 3)
    joined = network.op("CONCATENATION", [a, b], ANY, 6, 5, 7, axis=3)
    padding = network.ints([0, 0], [1, 0], [0, 2], [3, 0])
    padded = network.op("PAD", [joined, padding], ANY, 7, 7, 10)
    pooled = {
        "padding": "VALID",
        "stride_h": 2,
        "stride_w": 1,
        "filter_height": 2,
        "filter_width": 3,
    }
    weights = [
        network.builder.constant(name, random(*s)) for name, s in (("w", (2, 4)), ("b", (2,)))
    ]
    product = network.op("FULLY_CONNECTED", [a, *weights], ANY, 6, 5, 2, keep_num_dims=True)
    made = [
        network.op("CONCATENATION", [product, a], ANY, 6, 5, 6, axis=3),
        network.op("MAX_POOL_2D", [a], ANY, 3, 3, 4, **pooled),
        network.op("TRANSPOSE", [b, network.ints(3, 0, 1, 2)], 3, ANY, 6, 5),
        network.op("MEAN", [joined, network.ints(1, 2)], ANY, 7),
        network.op("SOFTMAX", [padded], ANY, 7, 7, 10, beta=1.0),
        network.op(
            "CONCATENATION", [network.op("COS", [a], ANY, 6, 5, 4), x], ANY, 6, 5, 4, axis=0
        ),
    ]
    bounds = {"x": (4, 6, 5, 4), "y": (4, 6, 5, 3)}
    report = network.compile(tmp_path, bounds, *made)

    def inputs(number: int) -> Mapping[str, Any]:
        return {name: random(number, 6, 5, depth) for name, depth in (("x", 4), ("y", 3))}

    check_runs(tmp_path, [inputs(number) for number in (1, 4, 2, 3, 1)], report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(LiteRtError, match="but the two sizes must be equal"),
    ):
        model.run({**inputs(2), "y": random(3, 6, 5, 3)})


def test_what_is_joined_must_fit_in_a_run(tmp_path: Path) -> None:
    network = Network()
    x, y = network.input("x", ANY, ANY, 3), network.input("y", ANY, ANY, 5)
    z = network.input("z", ANY, ANY, 3)
    packed = network.op("PACK", [x, z], ANY, 2, ANY, 3, values_count=2, axis=1)
    made = [
        packed,
        network.op(
            "CONCATENATION",
            [network.parts("UNPACK", [packed], [(ANY, ANY, 3)] * 2, num=2, axis=1)[0], y],
            ANY,
            ANY,
            8,
            axis=2,
        ),
    ]
    bounds = {"x": (3, 4, 3), "y": (3, 6, 5), "z": (2, 9, 3)}
    report = network.compile(tmp_path, bounds, *made)

    def inputs(*sides: int) -> Mapping[str, Any]:
        return {name: random(*sides, depth) for name, depth in (("x", 3), ("y", 5), ("z", 3))}

    check_runs(tmp_path, [inputs(1, 1), inputs(2, 4), inputs(2, 3)], report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(LiteRtError, match="but the two sizes must be equal"),
    ):
        model.run({**inputs(2, 4), "y": random(2, 3, 5)})


def test_indices_of_a_run_choose_rows_of_a_table(tmp_path: Path) -> None:
    network = Network()
    ids = network.input("ids", ANY, ANY, dtype="int32")
    table = network.builder.constant("table", random(20, 6))
    made = network.op("GATHER", [table, ids], ANY, ANY, 6)
    report = network.compile(tmp_path, {"ids": (3, 10)}, made)
    random_ids = np.random.default_rng(1)
    runs = [
        {"ids": random_ids.integers(0, 20, shape).astype(np.int32)}
        for shape in ((1, 1), (3, 10), (2, 7))
    ]
    check_runs(tmp_path, runs, report)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda n, x: _sliced(n, x, [(0, 0, 1), (0, 2, 1)], ANY, ANY, ANY, 12, begin_mask=1, end_mask=1),
            "the slice depends on the size of a dimension, which is known only at run time",
        ),
        (
            lambda n, x: n.parts("UNPACK", [x], [(ANY, ANY, 12)] * 2, num=2, axis=1),
            "do not determine the shape of the result",
        ),
        (
            lambda n, x: n.op("RESHAPE", [x, n.input("s", 3, dtype="int32")], ANY, ANY, ANY),
            "all sizes of the result except one must be constants",
        ),
        (lambda n, x: n.op("TILE", [x, n.input("s", 4, dtype="int32")], ANY, ANY, ANY, 12), "multiples are not"),
        (lambda n, x: n.op("RELU", [x], 1, 3, 3, 12), "but the model declares"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(
    tmp_path: Path, make: Callable[[Network, Tensor], Made], reason: str
) -> None:
    network = Network()
    made = make(network, network.input("x", ANY, ANY, ANY, 12))
    outputs = [made] if isinstance(made, Tensor) else made
    bounds: dict[str, Sequence[int]] = {"x": BOUND}
    for tensor in outputs:
        if -1 in tensor.type.shape:
            bounds[tensor.name] = tuple(9 if n < 0 else n for n in tensor.type.shape)
    report = network.compile(tmp_path, bounds, *outputs)
    (op,) = report.ops
    assert not op.call and reason in str(op.reason)


def test_a_size_above_its_bound_is_an_error(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", ANY, 12)
    made = network.op("RESHAPE", [x, network.ints(-1, 4)], ANY, 4)
    network.compile(tmp_path, {"x": (3, 12)}, made)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(LiteRtError, match="exceeds the largest shape 3x12 for which"),
    ):
        model.run({"x": random(4, 12)})


def test_a_mirror_wider_than_the_image_is_an_error(tmp_path: Path) -> None:
    network = Network()
    x = network.input("x", ANY, 2)
    made = network.op("MIRROR_PAD", [x, network.ints([2, 0], [0, 0])], ANY, 2, mode="REFLECT")
    report = network.compile(tmp_path, {"x": (5, 2)}, made)
    check_runs(tmp_path, [{"x": random(size, 2)} for size in (3, 5)], report)
    with (
        CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
        pytest.raises(LiteRtError, match="but the two sizes must be equal"),
    ):
        model.run({"x": random(2, 2)})
