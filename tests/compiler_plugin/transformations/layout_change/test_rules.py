"""Tests each layout rule on an op between two convolutions: the op reads and writes NCHW and computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler_plugin.transformations.layout_change.rule import layout_rules
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor
from tests.compiler_plugin.transformations.layout_change.checking import check_change, count_ops

F = "float32"
N, H, W, C = 2, 4, 6, 8
Build = Callable[[ModelBuilder, Tensor], Any]


def conv(b: ModelBuilder, x: Tensor, channels: int, name: str = "conv") -> Tensor:
    """Adds a pointwise convolution, which is bound to the graph's layout."""
    n, h, w, c = x.shape
    rng = np.random.default_rng(channels)
    weights = b.constant(f"{name}_w", rng.uniform(-1, 1, (channels, 1, 1, c)).astype(np.float32))
    bias = b.constant(f"{name}_b", rng.uniform(-1, 1, channels).astype(np.float32))
    result: Tensor = b.op(
        "CONV_2D",
        [x, weights, bias],
        [(name, F, (n, h, w, channels))],
        padding="SAME",
        stride_w=1,
        stride_h=1,
        dilation_w_factor=1,
        dilation_h_factor=1,
    )
    return result


def sandwich(build: Build) -> Model:
    """Puts `build` after a convolution, and a convolution after each output that is an image."""
    b = ModelBuilder()
    x = b.input("x", F, (N, H, W, C))
    made = build(b, conv(b, x, C, "before"))
    for index, y in enumerate(made if isinstance(made, tuple) else (made,)):
        is_image = len(y.shape) == 4 and y.element_type.name == "FLOAT32"
        b.output(conv(b, y, 3, f"after{index}") if is_image else y)
    return b.build()


def ints(b: ModelBuilder, *values: int, name: str = "ints") -> Tensor:
    return b.constant(f"{name}{len(b.graph.tensors)}", np.array(values, np.int32))


def scalar(b: ModelBuilder, value: int) -> Tensor:
    return b.constant(f"scalar{len(b.graph.tensors)}", np.array(value, np.int32))


def floats(b: ModelBuilder, *shape: int) -> Tensor:
    values = np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape).astype(np.float32)
    return b.constant(f"floats{len(b.graph.tensors)}", values)


def out(*shape: int, kind: str = F, name: str = "y") -> tuple[str, str, tuple[int, ...]]:
    return (name, kind, shape)


def pads(b: ModelBuilder) -> Tensor:
    return b.constant("pads", np.array([[0, 0], [1, 2], [0, 1], [2, 0]], np.int32))


SAME: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
DILATED: dict[str, Any] = {**SAME, "dilation_w_factor": 1, "dilation_h_factor": 1}
POOL: dict[str, Any] = {"padding": "SAME", "stride_w": 2, "stride_h": 2}
POOL = {**POOL, "filter_width": 3, "filter_height": 2}

CASES: dict[str, Build] = {
    "depthwise": lambda b, x: b.op(
        "DEPTHWISE_CONV_2D",
        [x, floats(b, 1, 3, 2, 2 * C), floats(b, 2 * C)],
        [out(N, H, W, 2 * C)],
        depth_multiplier=2,
        **DILATED,
    ),
    "transpose_conv": lambda b, x: b.op(
        "TRANSPOSE_CONV",
        [ints(b, N, 2 * H, 2 * W, 5), floats(b, 5, 3, 2, C), x],
        [out(N, 2 * H, 2 * W, 5)],
        padding="SAME",
        stride_w=2,
        stride_h=2,
    ),
    "average_pool": lambda b, x: b.op("AVERAGE_POOL_2D", [x], [out(N, 2, 3, C)], **POOL),
    "max_pool": lambda b, x: b.op("MAX_POOL_2D", [x], [out(N, 2, 3, C)], **POOL),
    "l2_pool": lambda b, x: b.op("L2_POOL_2D", [x], [out(N, 2, 3, C)], **POOL),
    "resize": lambda b, x: b.op(
        "RESIZE_BILINEAR", [x, ints(b, 7, 5)], [out(N, 7, 5, C)], half_pixel_centers=True
    ),
    "nearest": lambda b, x: b.op(
        "RESIZE_NEAREST_NEIGHBOR", [x, ints(b, 7, 5)], [out(N, 7, 5, C)]
    ),
    "depth_to_space": lambda b, x: b.op(
        "DEPTH_TO_SPACE", [x], [out(N, 2 * H, 2 * W, C // 4)], block_size=2
    ),
    "space_to_depth": lambda b, x: b.op(
        "SPACE_TO_DEPTH", [x], [out(N, H // 2, W // 2, 4 * C)], block_size=2
    ),
    "space_to_batch": lambda b, x: b.op(
        "SPACE_TO_BATCH_ND",
        [x, ints(b, 2, 3), b.constant("crops", np.array([[1, 1], [0, 3]], np.int32))],
        [out(6 * N, 3, 3, C)],
    ),
    "batch_to_space": lambda b, x: b.op(
        "BATCH_TO_SPACE_ND",
        [x, ints(b, 1, 2), b.constant("crops", np.array([[0, 1], [2, 0]], np.int32))],
        [out(N // 2, H - 1, 2 * W - 2, C)],
    ),
    "local_response": lambda b, x: b.op(
        "LOCAL_RESPONSE_NORMALIZATION",
        [x],
        [out(N, H, W, C)],
        radius=2,
        bias=1.0,
        alpha=0.5,
        beta=0.5,
    ),
    "relu": lambda b, x: b.op("RELU", [x], [out(N, H, W, C)]),
    "add_channels": lambda b, x: b.op("ADD", [x, floats(b, C)], [out(N, H, W, C)]),
    "mul_scalar": lambda b, x: b.op("MUL", [x, floats(b)], [out(N, H, W, C)]),
    "sub_rows": lambda b, x: b.op("SUB", [floats(b, H, 1, C), x], [out(N, H, W, C)]),
    "prelu": lambda b, x: b.op("PRELU", [x, floats(b, 1, 1, C)], [out(N, H, W, C)]),
    "add_computed_vector": lambda b, x: b.op(
        "ADD",
        [x, b.op("ABS", [b.op("REDUCE_MAX", [x, ints(b, 0, 1, 2)], [out(C, name="m")])], [out(C)])],
        [out(N, H, W, C, name="z")],
    ),
    "select": lambda b, x: b.op(
        "SELECT_V2",
        [b.op("GREATER", [x, floats(b, 1)], [out(N, H, W, C, kind="bool", name="c")]), x, floats(b, W, C)],
        [out(N, H, W, C)],
    ),
    "concatenation": lambda b, x: b.op("CONCATENATION", [x, x], [out(N, H, W, 2 * C)], axis=-1),
    "concatenation_rows": lambda b, x: b.op(
        "CONCATENATION", [x, floats(b, N, 1, W, C)], [out(N, H + 1, W, C)], axis=1
    ),
    "split": lambda b, x: b.op(
        "SPLIT",
        [scalar(b, 3), x],
        [out(N, H, W, C // 2, name="a"), out(N, H, W, C // 2, name="b")],
        num_splits=2,
    ),
    "split_v": lambda b, x: b.op(
        "SPLIT_V",
        [x, ints(b, 1, 3), scalar(b, -3)],
        [out(N, 1, W, C, name="a"), out(N, 3, W, C, name="b")],
        num_splits=2,
    ),
    "pack": lambda b, x: b.op(
        "PACK",
        [b.op("REDUCE_MAX", [x, ints(b, 3)], [out(N, H, W, name="m")])] * 2,
        [out(N, H, W, 2)],
        axis=-1,
        values_count=2,
    ),
    "unpack": lambda b, x: b.op(
        "UNPACK",
        [b.op("SLICE", [x, ints(b, 0, 0, 0, 0), ints(b, -1, -1, -1, 1)], [out(N, H, W, 1, name="s")])],
        [out(N, H, W, name="u")],
        axis=3,
        num=1,
    ),
    "gather": lambda b, x: b.op("GATHER", [x, ints(b, 3, 0)], [out(N, 2, W, C)], axis=1),
    "gather_one": lambda b, x: b.op("GATHER", [x, scalar(b, 3)], [out(N, H, W)], axis=3),
    "one_hot": lambda b, x: b.op(
        "ONE_HOT",
        [
            b.op("ARG_MAX", [x, scalar(b, 3)], [out(N, H, W, kind="int32", name="i")], output_type="INT32"),
            scalar(b, 4),
            floats(b),
            b.constant("off", np.array(0, np.float32)),
        ],
        [out(N, H, W, 4)],
        axis=-1,
    ),
    "arg_min": lambda b, x: b.op(
        "ARG_MIN", [x, scalar(b, -1)], [out(N, H, W, kind="int32")], output_type="INT32"
    ),
    "cumsum": lambda b, x: b.op("CUMSUM", [x, scalar(b, 2)], [out(N, H, W, C)], reverse=True),
    "reverse": lambda b, x: b.op("REVERSE_V2", [x, ints(b, 3)], [out(N, H, W, C)]),
    "reverse_sequence": lambda b, x: b.op(
        "REVERSE_SEQUENCE", [x, ints(b, 2, 3)], [out(N, H, W, C)], seq_dim=1, batch_dim=0
    ),
    "mean": lambda b, x: b.op("MEAN", [x, ints(b, 1, 2)], [out(N, 1, 1, C)], keep_dims=True),
    "sum_of_channels": lambda b, x: b.op("SUM", [x, ints(b, -1)], [out(N, H, W)]),
    "max_of_image": lambda b, x: b.op("REDUCE_MAX", [x, ints(b, 2, 1)], [out(N, C)]),
    "pad": lambda b, x: b.op("PAD", [x, pads(b)], [out(N, H + 3, W + 1, C + 2)]),
    "pad_with": lambda b, x: b.op("PADV2", [x, pads(b), floats(b, 1)], [out(N, H + 3, W + 1, C + 2)]),
    "mirror_pad": lambda b, x: b.op(
        "MIRROR_PAD", [x, pads(b)], [out(N, H + 3, W + 1, C + 2)], mode="REFLECT"
    ),
    "tile": lambda b, x: b.op("TILE", [x, ints(b, 1, 2, 1, 3)], [out(N, 2 * H, W, 3 * C)]),
    "slice": lambda b, x: b.op(
        "SLICE", [x, ints(b, 0, 1, 2, 3), ints(b, N, 2, 3, 4)], [out(N, 2, 3, 4)]
    ),
    "update": lambda b, x: b.op(
        "DYNAMIC_UPDATE_SLICE", [x, floats(b, 1, 2, 3, 4), ints(b, 1, 0, 2, 3)], [out(N, H, W, C)]
    ),
    "broadcast_to": lambda b, x: b.op(
        "ADD",
        [x, b.op("BROADCAST_TO", [floats(b, W, 1), ints(b, N, H, W, C)], [out(N, H, W, C, name="t")], version=2)],
        [out(N, H, W, C)],
    ),
    "fill": lambda b, x: b.op(
        "ADD",
        [x, b.op("FILL", [ints(b, N, 1, W, C), floats(b)], [out(N, 1, W, C, name="f")])],
        [out(N, H, W, C)],
    ),
    "strided_slice": lambda b, x: b.op(
        "STRIDED_SLICE",
        [x, ints(b, 0, 3, 1, 2), ints(b, 0, 0, 5, 7), ints(b, 1, -1, 2, 1)],
        [out(N, 3, 2, 5)],
        begin_mask=1,
        end_mask=1,
    ),
    "strided_slice_of_two": lambda b, x: b.op(
        "STRIDED_SLICE", [x, ints(b, 0, 1), ints(b, N, 3), ints(b, 1, 1)], [out(N, 2, W, C)]
    ),
    "strided_slice_shrinks": lambda b, x: b.op(
        "STRIDED_SLICE",
        [x, ints(b, 0, 0, 0, 5), ints(b, N, H, W, 6), ints(b, 1, 1, 1, 1)],
        [out(N, H, W)],
        shrink_axis_mask=8,
    ),
    "transpose": lambda b, x: b.op("TRANSPOSE", [x, ints(b, 0, 2, 1, 3)], [out(N, W, H, C)]),
    "reshape_of_space": lambda b, x: b.op(
        "RESHAPE", [x, ints(b, N, H * W, 1, C)], [out(N, H * W, 1, C)], new_shape=(N, H * W, 1, C)
    ),
    "squeeze_and_expand": lambda b, x: b.op(
        "EXPAND_DIMS",
        [
            b.op(
                "SQUEEZE",
                [b.op("REDUCE_MAX", [x, ints(b, 3)], [out(N, H, W, 1, name="m")], keep_dims=True)],
                [out(N, H, W, name="s")],
                squeeze_dims=(-1,),
            ),
            scalar(b, 3),
        ],
        [out(N, H, W, 1)],
    ),
    "shape": lambda b, x: b.op("SHAPE", [x], [out(4, kind="int32")], out_type="INT32"),
    "rank": lambda b, x: b.op("RANK", [x], [out(kind="int32")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_op_between_convolutions_is_in_nchw_and_means_the_same(name: str) -> None:
    model = sandwich(CASES[name])
    changed, report, back = check_change(model)
    assert count_ops(back)["TRANSPOSE"] == count_ops(model)["TRANSPOSE"]
    images = [t for t in model.subgraphs[0].outputs if len(t.shape) == 4 and t.shape[1:3] != (1, 1)]
    extra = 1 if name == "transpose" else 0  # the model's own TRANSPOSE stays
    assert count_ops(changed)["TRANSPOSE"] == 1 + len(images) + extra
    assert report.transposes == 1 + len(images)


def test_each_rule_is_for_builtin_ops_by_their_right_names() -> None:
    from litert.model.schema import BUILTIN_OPERATORS

    assert set(layout_rules()) <= set(BUILTIN_OPERATORS.values())
