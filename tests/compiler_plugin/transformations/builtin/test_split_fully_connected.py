"""Tests that large FULLY_CONNECTED ops are split into parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler_plugin.transformations.builtin.back.split_fully_connected import SplitFullyConnected
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import build, check_same, transform

NAME = "split_fully_connected"


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("rows", "parts"), [(1024, 1), (1025, 2), (3000, 3)])
def test_each_part_has_at_most_a_mebibyte_of_weights(rows: int, parts: int, has_bias: bool) -> None:
    def make(b: ModelBuilder) -> Any:
        random = np.random.default_rng(0)
        x = b.input("x", "float32", (2, 256))
        w = b.constant("w", random.normal(size=(rows, 256)).astype(np.float32))
        bias = b.constant("b", random.normal(size=rows).astype(np.float32)) if has_bias else None
        return b.op(
            "FULLY_CONNECTED",
            [x, w, bias],
            [("y", "float32", (2, rows))],
            fused_activation_function="RELU",
        )

    ops, matches = check_same(make, NAME)
    expected = ["FULLY_CONNECTED"] * parts + (["CONCATENATION"] if parts > 1 else [])
    assert ops == expected and matches == {NAME: int(parts > 1)}


def test_weights_quantized_by_rows_keep_each_rows_scale() -> None:
    def make(b: ModelBuilder) -> Any:
        random = np.random.default_rng(0)
        rows, columns = 600, 4096
        x = b.input("x", "int8", (2, columns), quantization=Quantization((0.05,), (3,)))
        scales = tuple(random.uniform(0.001, 0.01, rows).tolist())
        w = b.constant(
            "w", random.integers(-127, 127, (rows, columns)).astype(np.int8),
            quantization=Quantization(scales, (0,) * rows),
        )  # fmt: skip
        bias = b.constant(
            "b", random.integers(-900, 900, rows).astype(np.int32),
            quantization=Quantization(tuple(0.05 * s for s in scales), (0,) * rows),
        )  # fmt: skip
        y = b.tensor("y", "int8", (2, rows), quantization=Quantization((0.5,), (-1,)))
        b.op("FULLY_CONNECTED", [x, w, bias], [y], version=4)
        return y

    ops, _ = check_same(make, NAME, exact=True)
    assert ops == ["FULLY_CONNECTED"] * 3 + ["CONCATENATION"]


def test_a_subclass_sets_another_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SplitFullyConnected, "max_bytes", 64)

    def make(b: ModelBuilder) -> Any:
        x, w = b.input("x", "float32", (2, 8)), b.constant("w", np.ones((5, 8), np.float32))
        return b.op("FULLY_CONNECTED", [x, w, None], [("y", "float32", (2, 5))])

    assert check_same(make, NAME)[0] == ["FULLY_CONNECTED"] * 3 + ["CONCATENATION"]


@pytest.mark.parametrize("shape", [(3, 0), (12,)])
def test_weights_that_are_no_matrix_of_numbers_stay(shape: tuple[int, ...]) -> None:
    def make(b: ModelBuilder) -> Any:
        x, w = b.input("x", "float32", (2, 0)), b.constant("w", np.zeros(shape, np.float32))
        return b.op("FULLY_CONNECTED", [x, w, None], [("y", "float32", (2, 3))])

    assert transform(build(make), NAME) == {NAME: 0}
