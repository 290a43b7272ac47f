"""Tests that each spelling of hard swish is fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import check_same

SHAPE = (1, 4, 4, 3)
Make = Callable[["Writer", Any], Any]


class Writer:
    """Adds ops of one shape; numbers among the inputs become constants."""

    def __init__(self, builder: ModelBuilder, number_shape: tuple[int, ...] = ()) -> None:
        self.builder = builder
        self.number_shape = number_shape
        self.count = 0

    def op(self, name: str, *inputs: Any, **options: Any) -> Any:
        self.count += 1
        tensors = [self.number(i) if isinstance(i, float | int) else i for i in inputs]
        return self.builder.op(name, tensors, [(f"t{self.count}", "float32", SHAPE)], **options)

    def number(self, value: float) -> Any:
        self.count += 1
        return self.builder.constant(
            f"c{self.count}", np.full(self.number_shape, value, np.float32)
        )


def relu6(w: Writer, x: Any) -> Any:
    return w.op("RELU6", w.op("ADD", x, 3))


SPELLINGS: dict[str, Make] = {
    "x * (relu6 * 1/6)": lambda w, x: w.op("MUL", x, w.op("MUL", relu6(w, x), 1 / 6)),
    "(x * relu6) * 1/6": lambda w, x: w.op("MUL", w.op("MUL", x, relu6(w, x)), 1 / 6),
    "(x * relu6) / 6": lambda w, x: w.op("DIV", w.op("MUL", x, relu6(w, x)), 6),
    "x * (relu6 / 6)": lambda w, x: w.op("MUL", w.op("DIV", relu6(w, x), 6), x),
    "(x * 1/6) * relu6": lambda w, x: w.op("MUL", w.op("MUL", x, 1 / 6), relu6(w, x)),
    "relu6 fused into the sum": lambda w, x: w.op(
        "MUL", x, w.op("MUL", w.op("ADD", 3, x, fused_activation_function="RELU6"), 1 / 6)
    ),
    "minimum and maximum": lambda w, x: w.op(
        "MUL", x, w.op("DIV", w.op("MINIMUM", w.op("MAXIMUM", w.op("ADD", x, 3), 0), 6), 6)
    ),
    "relu and minimum": lambda w, x: w.op(
        "MUL", x, w.op("MUL", w.op("MINIMUM", w.op("RELU", w.op("ADD", x, 3)), 6), 1 / 6)
    ),
    "relu fused, and minimum": lambda w, x: w.op(
        "MUL",
        x,
        w.op("MUL", w.op("MINIMUM", w.op("ADD", x, 3, fused_activation_function="RELU"), 6), 1 / 6),
    ),
    "hard sigmoid from 0 to 1": lambda w, x: w.op(
        "MUL", x, w.op("RELU_0_TO_1", w.op("ADD", w.op("MUL", x, 1 / 6), 0.5))
    ),
    "x - (-3)": lambda w, x: w.op("MUL", x, w.op("DIV", w.op("RELU6", w.op("SUB", x, -3)), 6)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_becomes_one_op(spelling: str) -> None:
    def make(b: ModelBuilder) -> Any:
        return SPELLINGS[spelling](Writer(b), b.input("x", "float32", SHAPE))

    assert check_same(make, "fuse_hard_swish") == (["HARD_SWISH"], {"fuse_hard_swish": 1})


def test_what_is_read_may_itself_be_a_sum_or_a_product() -> None:
    def make(b: ModelBuilder) -> Any:
        w = Writer(b)
        x, y = b.input("x", "float32", SHAPE), b.input("y", "float32", SHAPE)
        z = w.op("ADD", w.op("MUL", w.op("MUL", x, y), 2), 1)
        return w.op("MUL", z, w.op("MUL", relu6(w, z), 1 / 6))

    ops, _ = check_same(make, "fuse_hard_swish")
    assert ops == ["MUL", "MUL", "ADD", "HARD_SWISH"]


OTHERS: dict[str, Make] = {
    "relu6(x + 2)": lambda w, x: w.op(
        "MUL", x, w.op("MUL", w.op("RELU6", w.op("ADD", x, 2)), 1 / 6)
    ),
    "a factor of 1/5": lambda w, x: w.op("MUL", x, w.op("MUL", relu6(w, x), 1 / 5)),
    "relu without an end": lambda w, x: w.op(
        "MUL", x, w.op("MUL", w.op("RELU", w.op("ADD", x, 3)), 1 / 6)
    ),
    "relu6 of another value": lambda w, x: w.op(
        "MUL", w.op("NEG", x), w.op("MUL", relu6(w, w.op("ABS", x)), 1 / 6)
    ),
    "the gate alone": lambda w, x: w.op("MUL", relu6(w, x), 1 / 6),
    "6 / (x * relu6)": lambda w, x: w.op(
        "DIV", 6, w.op("MUL", w.op("EXP", x), relu6(w, w.op("EXP", x)))
    ),
    "a product with an activation": lambda w, x: w.op(
        "MUL", w.op("MUL", x, relu6(w, x), fused_activation_function="RELU"), 1 / 6
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_nearly_a_hard_swish_stays(other: str) -> None:
    def make(b: ModelBuilder) -> Any:
        return OTHERS[other](Writer(b), b.input("x", "float32", SHAPE))

    assert check_same(make, "fuse_hard_swish")[1] == {"fuse_hard_swish": 0}


def test_a_number_of_higher_rank_that_changes_the_shape_keeps_the_ops() -> None:
    def make(b: ModelBuilder) -> Any:
        w = Writer(b)
        x = b.input("x", "float32", (4, 3))
        gate = b.op(
            "ADD", [x, w.number(3)], [("a", "float32", (4, 3))], fused_activation_function="RELU6"
        )
        w.number_shape = (1, 1, 1)
        sixth = b.op("MUL", [gate, w.number(1 / 6)], [("s", "float32", (1, 4, 3))])
        return b.op("MUL", [x, sixth], [("y", "float32", (1, 4, 3))])

    assert check_same(make, "fuse_hard_swish")[1] == {"fuse_hard_swish": 0}


def test_the_gate_stays_where_others_read_it() -> None:
    def make(b: ModelBuilder) -> Any:
        w = Writer(b)
        x = b.input("x", "float32", SHAPE)
        gate = w.op("MUL", relu6(w, x), 1 / 6)
        return w.op("MUL", x, gate), gate

    ops, matches = check_same(make, "fuse_hard_swish")
    assert matches == {"fuse_hard_swish": 1} and sorted(ops) == [
        "ADD",
        "HARD_SWISH",
        "MUL",
        "RELU6",
    ]


def test_numbers_that_a_converter_stored_small_are_found() -> None:
    def make(b: ModelBuilder) -> Any:
        def number(name: str, value: float) -> Any:
            stored = b.constant(f"{name}/half", np.float16(value))
            return b.op("DEQUANTIZE", [stored], [(name, "float32", ())])

        w, x = Writer(b), b.input("x", "float32", SHAPE)
        gate = w.op("RELU6", w.op("ADD", x, number("three", 3)))
        same = w.op("RESHAPE", gate, b.constant("shape", np.array(SHAPE, np.int32)))
        return w.op("DIV", w.op("MUL", x, same), number("six", 6))

    assert check_same(make, "all")[0] == ["HARD_SWISH"]


@pytest.mark.parametrize("scale", [1, 2])
def test_what_is_read_may_itself_be_scaled_many_times(scale: int) -> None:
    def make(b: ModelBuilder) -> Any:
        w = Writer(b)
        x = b.input("x", "float32", SHAPE)
        for factor in (0.5, 3, 0.25, 2, 1.5, 0.5)[: 3 * scale]:
            x = w.op("MUL", x, factor)
        return w.op("MUL", x, w.op("MUL", relu6(w, x), 1 / 6))

    ops, _ = check_same(make, "fuse_hard_swish")
    assert ops == [*["MUL"] * 3 * scale, "HARD_SWISH"]


@pytest.mark.parametrize("name", ["MUL", "DIV", "ADD", "MINIMUM"])
def test_chains_of_thousands_of_numbers_are_no_hard_swish(name: str) -> None:
    def make(b: ModelBuilder) -> Any:
        w = Writer(b)
        x = first = b.input("x", "float32", SHAPE)
        one = w.number(1.0)
        for _ in range(1500):
            x = w.op(name, x, one)
        return w.op("MUL", first, x)

    assert check_same(make, "fuse_hard_swish", "fuse_swish")[1] == {
        "fuse_hard_swish": 0,
        "fuse_swish": 0,
    }
