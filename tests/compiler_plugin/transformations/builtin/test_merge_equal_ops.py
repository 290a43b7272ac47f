"""Tests that equal ops are merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from tests.compiler_plugin.transformations.builtin.rewrites import build, check_same, transform

SHAPE = (1, 4, 4, 2)
HALF = (1, 2, 2, 2)


def pool(b: ModelBuilder, x: Any, name: str, op: str = "MAX_POOL_2D", **options: Any) -> Any:
    size = {"stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
    return b.op(op, [x], [(name, "float32", HALF)], padding="VALID", **{**size, **options})


def scale(b: ModelBuilder, x: Any, name: str, value: Any, op: str = "MUL") -> Any:
    constant = b.constant(f"{name}/c", np.asarray(value, np.float32))
    return b.op(op, [x, constant], [(name, "float32", x.shape)])


def twins(first: Any, second: Any) -> Any:
    """Returns a function that builds a model with the sum of two branches."""

    def make(b: ModelBuilder) -> Any:
        x = b.op("NEG", [b.input("x", "float32", SHAPE)], [("n", "float32", SHAPE)])
        left, right = first(b, x, "left"), second(b, x, "right")
        return b.op("ADD", [left, right], [("y", "float32", left.shape)])

    return make


def test_the_second_of_equal_ops_goes() -> None:
    ops, matches = check_same(twins(pool, pool), "merge_equal_ops", exact=True)
    assert ops == ["NEG", "MAX_POOL_2D", "ADD"] and matches == {"merge_equal_ops": 1}


def test_what_reads_equal_ops_becomes_equal() -> None:
    def branch(b: ModelBuilder, x: Any, name: str) -> Any:
        return scale(b, pool(b, x, f"{name}/pool"), name, 0.5)

    ops, _ = check_same(twins(branch, branch), "merge_equal_ops", exact=True)
    assert ops == ["NEG", "MAX_POOL_2D", "MUL", "ADD"]


OTHERS: dict[str, Any] = {
    "another op": lambda b, x, name: pool(b, x, name, "AVERAGE_POOL_2D"),
    "another option": lambda b, x, name: pool(b, x, name, fused_activation_function="RELU"),
    "another input": lambda b, x, name: pool(b, b.graph.inputs[0], name),
}


@pytest.mark.parametrize("case", OTHERS)
def test_ops_that_differ_stay(case: str) -> None:
    assert check_same(twins(pool, OTHERS[case]), "merge_equal_ops")[1] == {"merge_equal_ops": 0}


def test_constants_are_compared() -> None:
    def times(value: Any) -> Any:
        return lambda b, x, name: scale(b, x, name, value)

    assert check_same(twins(times(2.0), times(2.0)), "merge_equal_ops")[1] == {"merge_equal_ops": 1}
    assert check_same(twins(times(2.0), times(3.0)), "merge_equal_ops")[1] == {"merge_equal_ops": 0}
    large = np.ones(SHAPE)  # too large to be read for the comparison
    assert check_same(twins(times(large), times(large)), "merge_equal_ops")[1] == {
        "merge_equal_ops": 0
    }


def test_a_result_of_the_model_keeps_its_name() -> None:
    def make(b: ModelBuilder) -> Any:
        x = b.input("x", "float32", SHAPE)
        inner, result = pool(b, x, "inner"), pool(b, x, "result")
        return b.op("ABS", [inner], [("y", "float32", HALF)]), result

    ops, _ = check_same(make, "merge_equal_ops", exact=True)
    assert ops == ["MAX_POOL_2D", "ABS"]


def test_two_results_stay_two() -> None:
    def make(b: ModelBuilder) -> Any:
        x = b.input("x", "float32", SHAPE)
        return pool(b, x, "one"), pool(b, x, "other")

    assert check_same(make, "merge_equal_ops")[1] == {"merge_equal_ops": 0}


@pytest.mark.parametrize("op", ["RANDOM_UNIFORM", "Twice"])
def test_what_may_differ_each_time_stays(op: str) -> None:
    def make(b: ModelBuilder) -> Any:
        x = b.input("x", "int32", (2,))
        add = b.op if op.isupper() else b.custom
        outputs = [add(op, [x], [(name, "float32", (2, 2))]) for name in ("left", "right")]
        return b.op("ADD", outputs, [("y", "float32", (2, 2))])

    assert transform(build(make), "merge_equal_ops") == {"merge_equal_ops": 0}
