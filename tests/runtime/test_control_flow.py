"""Tests NPU calls in the bodies of WHILE and IF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder

X = np.array([[1, 2, 3, 4]], np.float32)
SHAPE = (1, 4)
SETTINGS = [{}, {"alignment": 4096, "padding": 64}]


def loop(*, adds_one: bool, **settings: int) -> bytes:
    """Returns a model that repeats `x = 2 * x` `n` times; with `adds_one`, the CPU adds 1 each time."""
    builder = NpuModelBuilder(settings)
    n, x = builder.input("n", "int32", ()), builder.input("x", FLOAT, SHAPE)
    cond, body = builder.subgraph("cond"), builder.subgraph("body")
    counter = cond.input("counter", "int32", ())
    cond.input("unused", FLOAT, SHAPE)
    zero = cond.constant("zero", np.array(0, np.int32))
    cond.output(cond.op("GREATER", [counter, zero], [("more", "bool", ())]))

    counter, value = body.input("counter", "int32", ()), body.input("value", FLOAT, SHAPE)
    one = body.constant("one", np.array(1, np.int32))
    rest = body.op("SUB", [counter, one], [("rest", "int32", ())])
    value = builder.npu("double", [value], [("doubled", FLOAT, SHAPE)], graph=body)
    if adds_one:
        ones = body.constant("ones", np.ones(SHAPE, np.float32))
        value = body.op("ADD", [value, ones], [("sum", FLOAT, SHAPE)])
    body.output(rest, value)

    left, result = builder.op(
        "WHILE",
        [n, x],
        [("left", "int32", ()), ("result", FLOAT, SHAPE)],
        cond_subgraph_index=cond,
        body_subgraph_index=body,
    )
    builder.output(left, result)
    return builder.bytes()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("adds_one", [True, False], ids=["between CPU ops", "alone"])
def test_a_loop_s_body_runs_as_often_as_it_should(
    load: Load, vendor: Any, adds_one: bool, settings: Any
) -> None:
    model = load(loop(adds_one=adds_one, **settings))
    for n in (3, 0, 5, 3):
        expected = X
        for _ in range(n):
            expected = 2 * expected + adds_one
        found = model.run({"n": np.array(n, np.int32), "x": X})
        np.testing.assert_array_equal(found["result"], expected)
        assert found["left"] == 0
    (call,) = vendor.calls
    assert call.num_runs == 11


def test_an_error_in_a_loop_s_body_ends_the_run(load: Load, vendor: Any) -> None:
    model = load(loop(adds_one=True))
    vendor.failing["double"] = LiteRtError(Status.RUNTIME_FAILURE, "the device has no power")
    with pytest.raises(LiteRtError, match="the device has no power"):
        model.run({"n": np.array(2, np.int32), "x": X})
    found = model.run({"n": np.array(1, np.int32), "x": X})
    np.testing.assert_array_equal(found["result"], 2 * X + 1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_both_branches_have_their_calls(load: Load, settings: Any) -> None:
    builder = NpuModelBuilder(settings)
    condition, x = builder.input("condition", "bool", ()), builder.input("x", FLOAT, SHAPE)
    then, other = builder.subgraph("then"), builder.subgraph("else")
    value = then.input("value", FLOAT, SHAPE)
    then.output(builder.npu("double", [value], [("doubled", FLOAT, SHAPE)], graph=then))
    value = other.input("value", FLOAT, SHAPE)
    sum_ = other.op("ADD", [value, value], [("sum", FLOAT, SHAPE)])
    difference = [("difference", FLOAT, SHAPE)]
    other.output(builder.npu("subtract", [value, sum_], difference, graph=other))
    result = builder.op(
        "IF",
        [condition, x],
        [("result", FLOAT, SHAPE)],
        then_subgraph_index=then,
        else_subgraph_index=other,
    )
    builder.output(result)
    model = load(builder.bytes())
    for chosen in (True, False, False, True, False):
        found = model.run({"condition": np.array(chosen), "x": X})["result"]
        np.testing.assert_array_equal(found, 2 * X if chosen else -X)


def test_a_loop_s_body_may_change_the_shape(load: Load) -> None:
    """The loop subtracts 1 from each element and keeps the elements that are still greater than 0, `n` times."""
    builder = NpuModelBuilder({"max_bytes": 64})
    n, x = builder.input("n", "int32", ()), builder.input("x", FLOAT, (6,))
    cond, body = builder.subgraph("cond"), builder.subgraph("body")
    counter = cond.input("counter", "int32", ())
    cond.input("unused", FLOAT, (6,), shape_signature=(-1,))
    zero = cond.constant("zero", np.array(0, np.int32))
    cond.output(cond.op("GREATER", [counter, zero], [("more", "bool", ())]))

    counter = body.input("counter", "int32", ())
    value = body.input("value", FLOAT, (6,), shape_signature=(-1,))
    one = body.constant("one", np.array(1, np.int32))
    rest = body.op("SUB", [counter, one], [("rest", "int32", ())])
    ones = body.constant("ones", np.ones(1, np.float32))
    less = body.op("SUB", [value, ones], [body.tensor("less", FLOAT, (6,), shape_signature=(-1,))])
    found = body.tensor("found", FLOAT, (6,), shape_signature=(-1,))
    shape = ("shape", "int32", (1,))
    builder.npu("positive", [less], [found, shape], graph=body, shape_outputs={0: 1})
    body.output(rest, found)

    result = builder.tensor("result", FLOAT, (6,), shape_signature=(-1,))
    builder.op(
        "WHILE",
        [n, x],
        [("left", "int32", ()), result],
        cond_subgraph_index=cond,
        body_subgraph_index=body,
    )
    builder.output(result)
    model = load(builder.bytes())
    given = np.array([1, 2, 3, 4, 5, -6], np.float32)
    for rounds in (1, 3, 0, 9, 2):
        expected = given
        for _ in range(rounds):
            expected = expected[expected > 1] - 1
        kept = model.run({"n": np.array(rounds, np.int32), "x": given})["result"]
        np.testing.assert_array_equal(kept, expected)
