"""Tests ops whose result shape the model computes from shapes, against stock LiteRT at each shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from litert import CompiledModel
from litert.core.errors import LiteRtError
from litert.model.graph import Tensor
from tests.vendor_reference.test_dynamic_library import Network, check_runs, random

pytestmark = pytest.mark.each_driver

ANY = -1


def _shape(n: Network, x: Tensor) -> Tensor:
    return n.op("SHAPE", [x], 4, dtype="int32", out_type="INT32")


def _size(n: Network, shape: Tensor, dim: int) -> Tensor:
    """Adds an op that reads one size from a shape."""
    bounds = [n.ints(dim), n.ints(dim + 1), n.ints(1)]
    return n.op("STRIDED_SLICE", [shape, *bounds], dtype="int32", shrink_axis_mask=1)


def _sizes(n: Network, shape: Tensor) -> Sequence[Tensor]:
    """Adds ops that read the batch, the height and the width from a shape."""
    return [_size(n, shape, dim) for dim in range(3)]


def _number(n: Network, value: int) -> Tensor:
    name = f"number{len(n.builder.graph.tensors)}"
    return n.builder.constant(name, np.array(value, np.int32))


def _computed(n: Network, name: str, lhs: Tensor, rhs: Tensor, *pattern: int) -> Tensor:
    return n.op(name, [lhs, rhs], *pattern, dtype="int32", fused_activation_function="NONE")


def _pack(n: Network, sizes: Sequence[Tensor | int]) -> Tensor:
    tensors = [_number(n, size) if isinstance(size, int) else size for size in sizes]
    return n.op("PACK", tensors, len(sizes), dtype="int32", values_count=len(sizes))


def _transposed(
    n: Network, x: Tensor, shape: Tensor, taps: tuple[int, int], *pattern: int, **options: object
) -> Tensor:
    """Adds a transposed convolution from 3 channels to 5."""
    given = [n.builder.constant("w", random(5, *taps, 3)), x, n.builder.constant("b", random(5))]
    return n.op("TRANSPOSE_CONV", [shape, *given], *pattern, version=3, **options)


def test_a_transposed_convolution_goes_by_the_batch_of_a_run(tmp_path: Path) -> None:
    n = Network()
    x = n.input("x", ANY, 4, 5, 3)
    moved = n.op("TANH", [x], ANY, 4, 5, 3)
    shape = _pack(n, [_size(n, _shape(n, moved), 0), 8, 15, 5])
    strides = {"padding": "SAME", "stride_h": 2, "stride_w": 3}
    made = _transposed(n, moved, shape, (3, 2), ANY, 8, 15, 5, **strides)
    y = n.input("y", ANY, 8, 15, 5)
    total = n.op("RELU", [n.op("ADD", [made, y], ANY, 8, 15, 5)], ANY, 8, 15, 5)
    report = n.compile(tmp_path, {"x": (6, 4, 5, 3), "y": (6, 8, 15, 5)}, total)
    runs = [{"x": random(size, 4, 5, 3), "y": random(size, 8, 15, 5)} for size in (6, 1, 4, 2)]
    check_runs(tmp_path, runs, report)


@pytest.mark.parametrize(
    ("padding", "taps", "added"),
    [("SAME", (3, 3), (0, 0)), ("SAME", (1, 4), (0, -1)), ("VALID", (3, 2), (1, 0)), ("VALID", (2, 2), (0, 0)),
     ("VALID", (4, 5), (2, 2))],
)  # fmt: skip
def test_a_transposed_convolution_goes_by_the_image_of_a_run(
    tmp_path: Path, padding: str, taps: tuple[int, int], added: tuple[int, int]
) -> None:
    n = Network()
    x = n.input("x", ANY, ANY, ANY, 3)
    own = _shape(n, x)
    sides = [
        _computed(n, "ADD", _computed(n, "MUL", _size(n, own, dim), _number(n, stride)), _number(n, more))
        for dim, (stride, more) in enumerate(zip((2, 3), added, strict=True), 1)
    ]  # fmt: skip
    shape = _pack(n, [_size(n, own, 0), *sides, 5])
    options = {"padding": padding, "stride_h": 2, "stride_w": 3}
    made = _transposed(n, x, shape, taps, ANY, ANY, ANY, 5, **options)
    report = n.compile(tmp_path, {"x": (3, 6, 7, 3)}, made)
    shapes = [(3, 6, 7, 3), (1, 1, 1, 3), (2, 5, 4, 3), (1, 2, 7, 3)]
    check_runs(tmp_path, [{"x": random(*shape)} for shape in shapes], report)


@pytest.mark.parametrize("name", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("half", [False, True])
def test_a_resize_goes_by_its_own_image(tmp_path: Path, name: str, half: bool) -> None:
    n, open_shape = Network(), (ANY, ANY, ANY, 3)
    x = n.input("x", *open_shape)
    bounds = [n.ints(1), n.ints(3), n.ints(1)]
    sides = n.op("STRIDED_SLICE", [_shape(n, x), *bounds], 2, dtype="int32")
    twice = n.op(
        name, [x, _computed(n, "MUL", sides, n.ints(2, 3), 2)], *open_shape, half_pixel_centers=half
    )
    again = n.op("ABS", [twice], *open_shape)
    own = _shape(n, again)
    height = _computed(n, "SUB", _size(n, own, 1), _number(n, 1))
    made = n.op(name, [again, _pack(n, [height, 4])], ANY, ANY, 4, 3, align_corners=not half)
    report = n.compile(tmp_path, {"x": (3, 6, 7, 3)}, made, again)
    shapes = [(3, 6, 7, 3), (1, 1, 1, 3), (2, 5, 4, 3), (1, 2, 7, 3)]
    check_runs(tmp_path, [{"x": random(*shape)} for shape in shapes], report)


def test_a_resize_goes_by_the_image_of_another_tensor(tmp_path: Path) -> None:
    n = Network()
    x, y = n.input("x", ANY, ANY, ANY, 3), n.input("y", ANY, ANY, ANY, 2)
    side = n.op("EXP", [y], ANY, ANY, ANY, 2)
    bounds = [n.ints(1), n.ints(3), n.ints(1)]
    sides = n.op("STRIDED_SLICE", [_shape(n, side), *bounds], 2, dtype="int32")
    moved = n.op("NEG", [x], ANY, ANY, ANY, 3)
    resized = n.op("RESIZE_BILINEAR", [moved, sides], ANY, ANY, ANY, 3, half_pixel_centers=True)
    made = n.op("CONCATENATION", [resized, side], ANY, ANY, ANY, 5, axis=3)
    report = n.compile(tmp_path, {"x": (3, 4, 5, 3), "y": (3, 8, 9, 2)}, made)
    sizes = [(3, 4, 5, 8, 9), (1, 1, 1, 3, 1), (2, 4, 3, 1, 9), (1, 3, 5, 7, 2)]
    runs = [
        {"x": random(batch, *sides[:2], 3), "y": random(batch, *sides[2:], 2)}
        for batch, *sides in sizes
    ]
    check_runs(tmp_path, runs, report)


def test_a_reshape_goes_by_sizes_that_are_multiplied(tmp_path: Path) -> None:
    n = Network()
    x = n.input("x", ANY, ANY, ANY, 12)
    moved = n.op("NEG", [x], ANY, ANY, ANY, 12)
    batch, height, _ = _sizes(n, _shape(n, moved))
    shape = _pack(n, [batch, _computed(n, "MUL", height, _number(n, 3)), -1, 2])
    made = n.op("RESHAPE", [moved, shape], ANY, ANY, ANY, 2)
    report = n.compile(tmp_path, {"x": (3, 6, 7, 12)}, made)
    shapes = [(3, 6, 7, 12), (1, 1, 1, 12), (2, 5, 4, 12)]
    check_runs(tmp_path, [{"x": random(*shape)} for shape in shapes], report)


def test_a_size_of_nothing_is_an_error(tmp_path: Path) -> None:
    n, open_shape = Network(), (1, ANY, 4, 3)
    x = n.input("x", *open_shape)
    height = _computed(n, "ADD", _number(n, -2), _size(n, _shape(n, x), 1))
    made = n.op("RESIZE_BILINEAR", [x, _pack(n, [height, 4])], *open_shape)
    report = n.compile(tmp_path, {"x": (1, 6, 4, 3)}, made)
    check_runs(tmp_path, [{"x": random(1, size, 4, 3)} for size in (6, 3)], report)
    for size in (2, 1):
        with (
            CompiledModel.from_file(str(tmp_path / "out.tflite")) as model,
            pytest.raises(
                LiteRtError, match=r"is -1, which is below 0; |but the two sizes must be equal"
            ),
        ):
            model.run({"x": random(1, size, 4, 3)})


def _resized(n: Network, x: Tensor, size: Tensor) -> Tensor:
    return n.op("RESIZE_BILINEAR", [x, size], ANY, ANY, ANY, 3)


def _opened(n: Network, x: Tensor, shape: Tensor) -> Tensor:
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 3}
    return _transposed(n, x, shape, (3, 2), ANY, ANY, ANY, 5, **options)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda n, x: _resized(n, x, n.input("s", 2, dtype="int32")), "computed in the NPU call from the SHAPE"),
        (lambda n, x: _opened(n, x, n.input("s", 4, dtype="int32")), "computed in the NPU call from the op"),
        (lambda n, x: _opened(n, x, _shape(n, x)), "the result has shape [-1, -1, -1, 3], but the model declares"),
        (
            lambda n, x: _opened(n, x, _pack(n, [*_sizes(n, _shape(n, x)), 5])),
            "those of the operand, multiplied by the strides, plus constants",
        ),
        (lambda n, x: _opened(n, x, n.ints(1, 8, 9, 5)), "a size of the operand is known only at run time"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(
    tmp_path: Path, make: Callable[[Network, Tensor], Tensor], reason: str
) -> None:
    n = Network()
    made = make(n, n.input("x", ANY, ANY, ANY, 3))
    bounds = {"x": (3, 6, 7, 3), made.name: (3, 12, 21, made.shape[3])}
    report = n.compile(tmp_path, bounds, made)
    op = report.ops[-1]
    assert not op.call and reason in str(op.reason)
