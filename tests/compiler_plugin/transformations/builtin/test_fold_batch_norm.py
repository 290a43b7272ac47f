"""Tests that normalizations are folded into weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transformations.running import Transformations
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import check_same, transform


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0.5, 2, shape).astype(np.float32)


def linear(
    b: ModelBuilder, op: str, *, has_bias: bool = True, **options: Any
) -> tuple[Any, tuple[int, ...]]:
    """Adds a linear op with 4 output channels; returns its output and the output shape."""
    bias = [b.constant("b", floats(4))] if has_bias else []
    if op == "FULLY_CONNECTED":
        x, w = b.input("x", "float32", (2, 6)), b.constant("w", floats(4, 6))
        return b.op(op, [x, w, *bias], [("l", "float32", (2, 4))], **options), (2, 4)
    is_depthwise = op == "DEPTHWISE_CONV_2D"
    x = b.input("x", "float32", (1, 5, 5, 4 if is_depthwise else 3))
    w = b.constant("w", floats(1, 3, 3, 4) if is_depthwise else floats(4, 3, 3, 3))
    if is_depthwise:
        options["depth_multiplier"] = 1
    shape = (1, 5, 5, 4)
    return b.op(
        op,
        [x, w, *bias],
        [("l", "float32", shape)],
        padding="SAME",
        stride_w=1,
        stride_h=1,
        **options,
    ), shape


@pytest.mark.parametrize(
    ("op", "has_bias"),
    [
        ("CONV_2D", True),
        ("DEPTHWISE_CONV_2D", True),
        ("FULLY_CONNECTED", True),
        ("FULLY_CONNECTED", False),
    ],
)
def test_a_normalization_is_folded_and_the_activation_follows(op: str, has_bias: bool) -> None:
    def make(b: ModelBuilder) -> Any:
        h, shape = linear(b, op, has_bias=has_bias)
        h = b.op("MUL", [h, b.constant("g", floats(4))], [("m", "float32", shape)])
        h = b.op("SUB", [h, b.constant("s", floats(1, 4))], [("s_", "float32", shape)])
        h = b.op("DIV", [h, b.constant("d", np.float32(1.7))], [("d_", "float32", shape)])
        h = b.op("ADD", [b.constant("a", floats(4)), h], [("a_", "float32", shape)])
        return b.op("RELU", [h], [("y", "float32", shape)])

    ops, matches = check_same(make, "fold_batch_norm", "fuse_activation")
    assert ops == [op] and matches == {"fold_batch_norm": 4, "fuse_activation": 1}


def test_the_activation_of_the_scale_becomes_the_linear_ops() -> None:
    def make(b: ModelBuilder) -> Any:
        h, shape = linear(b, "CONV_2D")
        return b.op(
            "ADD", [h, b.constant("a", floats(4))], [("y", "float32", shape)],
            fused_activation_function="RELU6",
        )  # fmt: skip

    assert check_same(make, "fold_batch_norm")[0] == ["CONV_2D"]


def keep_activation(b: ModelBuilder) -> Any:
    h, shape = linear(b, "CONV_2D", fused_activation_function="RELU")
    return b.op("MUL", [h, b.constant("g", floats(4))], [("y", "float32", shape)])


def keep_reader(b: ModelBuilder) -> Any:
    h, shape = linear(b, "CONV_2D")
    return b.op("MUL", [h, b.constant("g", floats(4))], [("y", "float32", shape)]), h


def keep_per_pixel(b: ModelBuilder) -> Any:
    h, shape = linear(b, "CONV_2D")
    return b.op("MUL", [h, b.constant("g", floats(5, 1))], [("y", "float32", shape)])


def keep_wider(b: ModelBuilder) -> Any:
    h, shape = linear(b, "FULLY_CONNECTED")
    return b.op("ADD", [h, b.constant("g", floats(1, 1, 4))], [("y", "float32", (1, *shape))])


def keep_reciprocal(b: ModelBuilder) -> Any:
    h, shape = linear(b, "CONV_2D")
    return b.op("DIV", [b.constant("g", floats(4)), h], [("y", "float32", shape)])


def keep_zero_by_zero(b: ModelBuilder) -> Any:
    h, shape = linear(b, "FULLY_CONNECTED", has_bias=False)
    h = b.op("DIV", [h, b.constant("g", np.zeros(4, np.float32))], [("i", "float32", shape)])
    return b.op("MAXIMUM", [b.op("MINIMUM", [h, b.constant("h", np.float32(9))], [("n", "float32", shape)]),
                            b.constant("l", np.float32(-9))], [("y", "float32", shape)])  # fmt: skip


def keep_zero(b: ModelBuilder) -> Any:
    h, shape = linear(b, "CONV_2D")
    h = b.op("DIV", [h, b.constant("g", np.zeros(4, np.float32))], [("i", "float32", shape)])
    return b.op("MAXIMUM", [b.op("MINIMUM", [h, b.constant("h", np.float32(9))], [("n", "float32", shape)]),
                            b.constant("l", np.float32(-9))], [("y", "float32", shape)])  # fmt: skip


def keep_computed(b: ModelBuilder) -> Any:
    h, shape = linear(b, "CONV_2D")
    return b.op("MUL", [h, b.input("g", "float32", (4,))], [("y", "float32", shape)])


@pytest.mark.parametrize(
    "make",
    [
        keep_activation,
        keep_reader,
        keep_per_pixel,
        keep_wider,
        keep_reciprocal,
        keep_zero,
        keep_zero_by_zero,
        keep_computed,
    ],
    ids=lambda make: make.__name__,
)
@pytest.mark.filterwarnings("error:::compiler_plugin")
def test_what_cannot_be_folded_stays(make: Any) -> None:
    assert check_same(make, "fold_batch_norm")[1] == {"fold_batch_norm": 0}


def test_weights_that_two_ops_share_stay_for_the_other() -> None:
    def make(b: ModelBuilder) -> Any:
        x, w = b.input("x", "float32", (2, 6)), b.constant("w", floats(4, 6))
        one = b.op("FULLY_CONNECTED", [x, w, None], [("one", "float32", (2, 4))])
        two = b.op("FULLY_CONNECTED", [x, w, None], [("two", "float32", (2, 4))])
        return b.op("MUL", [one, b.constant("g", floats(4))], [("y", "float32", (2, 4))]), two

    ops, _ = check_same(make, "fold_batch_norm")
    assert ops == ["FULLY_CONNECTED", "FULLY_CONNECTED"]


@pytest.mark.parametrize(("fold_limit", "matches"), [(0, 0), (575, 0), (576, 2)])
def test_weights_of_several_ops_are_copied_within_the_limit(fold_limit: int, matches: int) -> None:
    b = ModelBuilder()
    w = b.constant("w", floats(4, 3, 3, 4))  # 576 bytes, shared as in detection heads
    for i in range(2):
        x = b.input(f"x{i}", "float32", (1, 5, 5, 4))
        h = b.op(
            "CONV_2D", [x, w, b.constant(f"b{i}", floats(4))], [(f"h{i}", "float32", (1, 5, 5, 4))],
            padding="SAME", stride_w=1, stride_h=1,
        )  # fmt: skip
        scale = b.constant(f"c{i}", floats(4))
        b.output(b.op("MUL", [h, scale], [(f"y{i}", "float32", (1, 5, 5, 4))]))
    options = TransformOptions(selection=["fold_batch_norm"], fold_limit=fold_limit)
    transformations = Transformations(options)
    transformations.run(b.build())
    assert [report.matches for report in transformations.reports()] == [matches]


def test_weights_are_not_read_where_a_sum_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 256))
    w = b.constant("w", floats(256, 256))
    h = b.op("FULLY_CONNECTED", [x, w, None], [("h", "float32", (2, 256))])
    b.output(b.op("ADD", [h, b.constant("a", floats(256))], [("y", "float32", (2, 256))]))
    read: list[int] = []
    view = vars(Blob)["view"].fget

    def watch(blob: Blob) -> memoryview:
        read.append(blob.size)
        found: memoryview = view(blob)
        return found

    monkeypatch.setattr(Blob, "view", property(watch))
    assert transform(b.build(), "fold_batch_norm") == {"fold_batch_norm": 1}
    assert read and max(read) < 256 * 256 * 4
