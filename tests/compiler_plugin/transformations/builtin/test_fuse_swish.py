"""Tests that swish becomes a custom op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.custom_options import find_flexbuffer_options
from tests.compiler_plugin.transformations.builtin.rewrites import build, transform

SHAPE = (2, 5)


def make_writer(b: ModelBuilder) -> Callable[..., Any]:
    count = iter(range(1000))

    def op(name: str, *inputs: Any) -> Any:
        tensors = [
            b.constant(f"c{next(count)}", np.float32(i)) if isinstance(i, float | int) else i
            for i in inputs
        ]
        return b.op(name, tensors, [(f"t{next(count)}", "float32", SHAPE)])

    return op


SPELLINGS: dict[str, Callable[[Any, Any], Any]] = {
    "x * sigmoid(x)": lambda op, x: op("MUL", x, op("LOGISTIC", x)),
    "sigmoid(x) * x": lambda op, x: op("MUL", op("LOGISTIC", x), x),
    "x * sigmoid(1.5 x)": lambda op, x: op("MUL", x, op("LOGISTIC", op("MUL", x, 1.5))),
    "x / (1 + exp(-x))": lambda op, x: op("DIV", x, op("ADD", 1, op("EXP", op("NEG", x)))),
    "x / (exp(-1.5 x) + 1)": lambda op, x: op(
        "DIV", x, op("ADD", op("EXP", op("MUL", -1.5, x)), 1)
    ),
    "x * (1 / (1 + exp(-x)))": lambda op, x: op(
        "MUL", x, op("DIV", 1, op("ADD", 1, op("EXP", op("NEG", x))))
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_becomes_one_custom_op_with_its_beta(spelling: str) -> None:
    model = build(lambda b: SPELLINGS[spelling](make_writer(b), b.input("x", "float32", SHAPE)))
    name = model.subgraphs[0].outputs[0].name
    assert transform(model, "fuse_swish") == {"fuse_swish": 1}
    (op,) = model.subgraphs[0].ops
    assert op.is_custom and op.name == "Swish" and op.custom_options is not None
    options = find_flexbuffer_options(op.custom_options.view)
    assert isinstance(options, dict) and list(options) == ["beta"]
    assert options["beta"] == pytest.approx(1.5 if "1.5" in spelling else 1.0)
    assert model.subgraphs[0].outputs[0].name == name and op.outputs[0].shape == SHAPE


@pytest.mark.parametrize(
    "other",
    [
        lambda op, x: op("MUL", op("NEG", x), op("LOGISTIC", op("ABS", x))),
        lambda op, x: op("MUL", x, op("LOGISTIC", op("ADD", x, 1))),
        lambda op, x: op("DIV", op("ADD", 1, op("EXP", op("NEG", x))), x),
        lambda op, x: op("DIV", x, op("ADD", 2, op("EXP", op("NEG", x)))),
    ],
    ids=["another value", "a shift", "the reciprocal", "2 + exp"],
)
def test_what_is_nearly_a_swish_stays(other: Callable[[Any, Any], Any]) -> None:
    model = build(lambda b: other(make_writer(b), b.input("x", "float32", SHAPE)))
    before = [op.name for op in model.subgraphs[0].ops]
    assert transform(model, "fuse_swish") == {"fuse_swish": 0}
    assert [op.name for op in model.subgraphs[0].ops] == before


def test_it_runs_only_when_it_is_named() -> None:
    model = build(
        lambda b: SPELLINGS["x * sigmoid(x)"](make_writer(b), b.input("x", "float32", SHAPE))
    )
    assert "fuse_swish" not in transform(model, "all")
