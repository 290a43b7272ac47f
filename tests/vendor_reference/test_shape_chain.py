"""Tests chains of ops that compute shapes from shapes: of any length, also such as no converter writes."""

from __future__ import annotations

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from vendor_reference.compiler.library.shape_chain import ChainSize, read_sizes

LONG = 3000


def _start(b: ModelBuilder) -> tuple[Tensor, Tensor]:
    x = b.input("x", "float32", (1, 4, 6), shape_signature=[-1, 4, 6])
    return x, b.op("SHAPE", [x], [("shape", "int32", (3,))], out_type="INT32")


def _ints(b: ModelBuilder, *values: int) -> Tensor:
    return b.constant(f"ints{len(b.graph.tensors)}", np.array(values, np.int32))


def test_a_long_chain_is_read() -> None:
    b = ModelBuilder()
    x, shape = _start(b)
    one = _ints(b, 1)
    for i in range(LONG):
        shape = b.op("ADD", [shape, one], [(f"s{i}", "int32", (3,))])
        shape = b.op("CAST", [shape], [(f"c{i}", "int32", (3,))])
    assert read_sizes(shape, x) == [ChainSize(LONG, 1, 0), ChainSize(4 + LONG), ChainSize(6 + LONG)]


def test_a_chain_that_is_read_twice_at_each_step_is_read_once() -> None:
    b = ModelBuilder()
    x, shape = _start(b)
    begin, end, step = _ints(b, 0), _ints(b, 3), _ints(b, 1)
    for i in range(100):
        twice = b.op("CONCATENATION", [shape, shape], [(f"d{i}", "int32", (6,))], axis=0)
        shape = b.op("STRIDED_SLICE", [twice, begin, end, step], [(f"s{i}", "int32", (3,))])
    assert read_sizes(shape, x) == [ChainSize(0, 1, 0), ChainSize(4), ChainSize(6)]


def test_a_shape_that_doubles_at_each_step_is_not_read() -> None:
    b = ModelBuilder()
    x, shape = _start(b)
    for i in range(60):
        shape = b.op("CONCATENATION", [shape, shape], [(f"s{i}", "int32", (3,))], axis=0)
    assert read_sizes(shape, x) is None


@pytest.mark.parametrize("name", ["CAST", "ADD", "PACK"])
def test_a_circle_is_not_read(name: str) -> None:
    b = ModelBuilder()
    x, shape = _start(b)
    made = b.tensor("made", "int32", (3,))
    b.op(name, [made, shape] if name != "CAST" else [made], [made])
    assert read_sizes(made, x) is None
