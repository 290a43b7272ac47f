"""Tests library ops whose operands do not fit together: each is refused with a message, and nothing crashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.writer import write_model
from vendor_reference.compiler.library.library_op import library_ops

Shape = tuple[int, ...]
_ONCE = {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}
_SAME = {"padding": "SAME", **_ONCE}
_VALID = {"padding": "VALID", **_ONCE}
_DEPTH = {**_SAME, "depth_multiplier": 1}
_POOL = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}
_IMAGE = (1, 8, 8, 6)
_LARGE = 2**31 - 1

Misfit = tuple[str, Sequence[Shape | list[Any]], Shape | list[Shape], Mapping[str, Any]]
"""Op; inputs (a run gives the first; the others are weights or integers); results; options."""

MISFITS: Mapping[str, Misfit] = {
    "weights of other channels": ("CONV_2D", [_IMAGE, (4, 3, 3, 5), (4,)], (1, 8, 8, 4), _SAME),
    "results that no group has": ("CONV_2D", [_IMAGE, (5, 3, 3, 3), (5,)], (1, 8, 8, 5), _SAME),
    "a bias of another size": ("CONV_2D", [_IMAGE, (4, 3, 3, 6), (3,)], (1, 8, 8, 4), _SAME),
    "weights of another rank": ("CONV_2D", [_IMAGE, (4, 6), (4,)], (1, 8, 8, 4), _SAME),
    "an image of another rank": ("CONV_2D", [(8, 8, 6), (4, 1, 1, 6), (4,)], (8, 8, 4), _SAME),
    "a window larger than its input": ("CONV_2D", [_IMAGE, (4, 9, 9, 6), (4,)], (1, 0, 0, 4), _VALID),
    "a result of another size": ("CONV_2D", [_IMAGE, (4, 3, 3, 6), (4,)], (1, 8, 9, 4), _SAME),
    "a result of another batch": ("CONV_2D", [_IMAGE, (4, 3, 3, 6), (4,)], (2, 8, 8, 4), _SAME),
    "no stride": ("CONV_2D", [_IMAGE, (4, 3, 3, 6), (4,)], (1, 8, 8, 4), {**_SAME, "stride_w": 0}),
    "a stride backwards": ("CONV_2D", [_IMAGE, (4, 3, 3, 6), (4,)], (1, 8, 8, 4), {**_SAME, "stride_h": -1}),
    "no dilation": (
        "CONV_2D", [_IMAGE, (4, 3, 3, 6), (4,)], (1, 8, 8, 4), {**_SAME, "dilation_h_factor": 0}
    ),
    "a dilation that overflows": (
        "CONV_2D", [_IMAGE, (4, 3, 3, 6), (4,)], (1, 8, 8, 4), {**_VALID, "dilation_h_factor": _LARGE}
    ),
    "a dilation that overflows around an image": (
        "CONV_2D", [_IMAGE, (4, 2, 1, 6), (4,)], (1, 8, 8, 4), {**_SAME, "dilation_h_factor": _LARGE}
    ),
    "a stride that overflows": (
        "CONV_2D", [_IMAGE, (4, 2, 1, 6), (4,)], (1, 1, 8, 4), {**_SAME, "stride_h": _LARGE}
    ),
    "an image of 4 TiB": (
        "CONV_2D", [(1, 2**20, 2**20, 1), (1, 1, 1, 1), (1,)], (1, 2**20, 2**20, 1), _SAME
    ),
    "more elements than a number counts": ("SOFTMAX", [(2**20, 2**20)], (2**20, 2**20), {"beta": 1.0}),
    "a sum of too many elements": ("SUM", [(2**16, 2**16), [1]], (2**16,), {"keep_dims": False}),
    "a result of too many elements": (
        "BATCH_MATMUL", [(2**20, 1), (1, 2**20)], (2**20, 2**20), {}
    ),
    "depthwise weights of two": ("DEPTHWISE_CONV_2D", [_IMAGE, (2, 3, 3, 6), (6,)], (1, 8, 8, 6), _DEPTH),
    "a transposed result of another size": (
        "TRANSPOSE_CONV", [_IMAGE, [1, 5, 5, 4], (4, 2, 2, 6)], (1, 5, 5, 4),
        {"padding": "SAME", "stride_w": 2, "stride_h": 1},
    ),
    "rows of another depth": ("FULLY_CONNECTED", [(3, 7), (4, 6), (4,)], (3, 4), {}),
    "products of another depth": ("BATCH_MATMUL", [(3, 7), (6, 4)], (3, 4), {}),
    "batches that do not fit": ("BATCH_MATMUL", [(2, 3, 7), (3, 7, 4)], (2, 3, 4), {}),
    "a pool of nothing": ("AVERAGE_POOL_2D", [_IMAGE], (1, 8, 8, 6), {**_POOL, "filter_width": 0}),
    "a size of nothing": ("RESIZE_BILINEAR", [_IMAGE, [0, 4]], (1, 0, 4, 6), {}),
    "a size that is not the result's": ("RESIZE_NEAREST_NEIGHBOR", [_IMAGE, [4, 4]], (1, 4, 5, 6), {}),
    "an axis that is not there": ("MEAN", [_IMAGE, [4]], (1, 8, 8), {"keep_dims": False}),
    "a reduced shape of another size": ("SUM", [_IMAGE, [1]], (1, 9, 6), {"keep_dims": False}),
    "a softmax of the least": ("SOFTMAX", [(2, 6)], (2, 6), {"beta": -1.0}),
    "a softmax of nothing": ("SOFTMAX", [(2, 6)], (2, 6), {"beta": 0.0}),
    "a softmax to another shape": ("SOFTMAX", [(2, 6)], (2, 5), {"beta": 1.0}),
    "steps of nothing": ("STRIDED_SLICE", [(9,), [0], [9], [0]], (9,), {}),
    "a slice beyond its input": ("SLICE", [(9,), [5], [6]], (6,), {}),
    "parts that do not divide": ("SPLIT", [(7,)], [(4,), (3,)], {"num_splits": 2}),
    "packed shapes that differ": ("PACK", [(3, 4), (4, 3)], (2, 3, 4), {"axis": 0, "values_count": 2}),
    "parts that are not there": ("UNPACK", [(2, 3)], [(3,)] * 3, {"axis": 0, "num": 3}),
    "indices out of range": ("GATHER", [(3, 4), [0, 3]], (2, 4), {"axis": 0}),
    "indices in front of all": ("GATHER", [(3, 4), [0, -4]], (2, 4), {"axis": 0}),
    "channels of no block": ("DEPTH_TO_SPACE", [_IMAGE], (1, 16, 16, 1), {"block_size": 2}),
    "rows of no block": ("SPACE_TO_DEPTH", [(1, 7, 8, 2)], (1, 3, 4, 8), {"block_size": 2}),
    "a block of nothing": ("SPACE_TO_DEPTH", [_IMAGE], _IMAGE, {"block_size": 0}),
    "a mirror beyond its input": ("MIRROR_PAD", [(3,), [[3, 0]]], (6,), {"mode": "REFLECT"}),
    "compared shapes that differ": ("LESS", [(3,), (4,)], (4,), {}),
    "chosen shapes that differ": ("POW", [(3,), (4,)], (4,), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_is_refused(tmp_path: Path, case: str) -> None:
    name, *_ = MISFITS[case]
    model = build(*MISFITS[case])
    reason = library_ops()[name].refusal(model.subgraphs[0].ops[-1])
    assert 10 < len(reason) < 200, reason
    write_model(model, tmp_path / "model.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "all"})
    report = apply_plugin(
        tmp_path / "model.tflite", tmp_path / "compiled.tflite", ApplyOptions(compiler=options)
    )
    assert [op.reason for op in report.ops] == [reason]


COMPUTED: Mapping[str, tuple[Sequence[Shape], Shape, Mapping[str, Any]]] = {
    "BATCH_MATMUL": ([(2, 2**27), (2**27, 3)], (2, 3), {}),
    "FULLY_CONNECTED": ([(1, 2**27), (2, 2**27)], (1, 2), {}),
    "CONV_2D": ([(1, 1, 1, 2**27), (1, 1, 1, 2**27), (1,)], (1, 1, 1, 1), _VALID),
}
"""Inputs that a run gives; their few columns are padded to whole panels."""


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_weights_that_are_too_large_in_panels_are_refused(name: str) -> None:
    b, (shapes, result, options) = ModelBuilder(), COMPUTED[name]
    inputs = [b.input(f"x{number}", "float32", shape) for number, shape in enumerate(shapes)]
    b.op(name, inputs, [b.tensor("y", "float32", result)], **options)
    reason = library_ops()[name].refusal(b.build().subgraphs[0].ops[0])
    assert reason.startswith(
        "the weights, padded to a multiple of 16 columns, have 2147483648 elements"
    )


def build(
    name: str,
    inputs: Sequence[Shape | list[Any]],
    results: Shape | list[Shape],
    options: Mapping[str, Any],
) -> Model:
    b = ModelBuilder()
    tensors = []
    for number, given in enumerate(inputs):
        if number == 0:
            tensors.append(b.input("x", "float32", given))
        elif isinstance(given, list):
            tensors.append(b.constant(f"c{number}", np.array(given, np.int32)))
        else:
            tensors.append(b.constant(f"c{number}", np.ones(given, np.float32)))
    if name == "SPLIT":
        tensors.insert(0, b.constant("axis", np.array(0, np.int32)))
    if name == "TRANSPOSE_CONV":
        tensors = [tensors[1], tensors[2], tensors[0]]
    shapes = results if isinstance(results, list) else [results]
    dtype = "bool" if name == "LESS" else "float32"
    outputs = [b.tensor(f"y{number}", dtype, shape) for number, shape in enumerate(shapes)]
    b.op(name, tensors, outputs, **options)
    b.output(*outputs)
    return b.build()
