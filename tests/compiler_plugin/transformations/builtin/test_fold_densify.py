"""Tests that sparse constants become dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from litert.model.builder import ModelBuilder
from litert.model.table import Table
from tests.compiler_plugin.transformations.builtin.rewrites import check_same


def densified(b: ModelBuilder) -> Any:
    """Adds DENSIFY of [[0, 1, 0, 2], [0, 0, 3, 0]], stored sparse, as float16."""
    rows = Table.make("DimensionMetadata", format=0, dense_size=2)
    columns = Table.make(
        "DimensionMetadata",
        format=1,
        array_segments_type=1,
        array_segments=Table.make("Int32Vector", values=[0, 2, 3]),
        array_indices_type=1,
        array_indices=Table.make("Int32Vector", values=[1, 3, 2]),
    )
    sparsity = Table.make(
        "SparsityParameters", traversal_order=[0, 1], block_map=[], dim_metadata=[rows, columns]
    )
    data = np.array([1, 2, 3], np.float16).tobytes()
    w = b.constant("w", data, "float16", (2, 4), sparsity=sparsity)
    return b.op("DENSIFY", [w], [("dense", "float16", (2, 4))])


def sparse_weights(b: ModelBuilder) -> Any:
    """Adds FULLY_CONNECTED with sparse weights."""
    floats = b.op("DEQUANTIZE", [densified(b)], [("floats", "float32", (2, 4))])
    x = b.input("x", "float32", (3, 4))
    return b.op("FULLY_CONNECTED", [x, floats, None], [("y", "float32", (3, 2))])


def test_sparse_weights_become_constants() -> None:
    ops, _ = check_same(sparse_weights, "fold_densify", "fold_dequantize", exact=True)
    assert ops == ["FULLY_CONNECTED"]


def test_sparse_weights_stay_where_nobody_asks() -> None:
    ops, _ = check_same(sparse_weights, "all", exact=True)
    assert ops == ["DENSIFY", "DEQUANTIZE", "FULLY_CONNECTED"]
