"""Tests which builtin ops `--reference_ops=auto` takes: those that gain time according to the cost model."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from compiler_plugin.dependencies import find_dependencies
from compiler_plugin.partition import find_partitions
from litert.model.builder import ModelBuilder
from litert.model.graph import Op, Subgraph, Tensor
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.library.library_op import library_ops
from vendor_reference.compiler.op_selection import Selected, select_ops
from vendor_reference.compiler.op_times import OpTimes, expect_call
from vendor_reference.cost_model import EMULATED, CostModel, Rate, Work
from vendor_reference.custom_layers.custom_layer import LayerFile

LAYERS = {"Mine": custom_layer("Mine", "k.cl", [LayerFile("k.cl", b"__kernel void k() {}", True)])}
SHAPE = (1, 16, 16, 8)
FAST = replace(EMULATED, npu={work: Rate(0, 0, 1e-5, 1e-5) for work in Work})
"""An NPU whose ops take almost no time, so that calls and transfers decide."""


def times_of(costs: CostModel = EMULATED) -> OpTimes:
    return OpTimes(costs, {}, lambda op: op.is_custom)


def select(subgraph: Subgraph, costs: CostModel = EMULATED) -> Selected:
    return select_ops(subgraph, LAYERS, library_ops(), times=times_of(costs))


def random_graph(rng: random.Random, num_ops: int, is_chain: bool = False) -> Subgraph:
    """Returns a graph of ops of different costs, with some custom ops and some ops that the NPU cannot run."""
    b = ModelBuilder()
    made = [b.input("x", "float32", SHAPE)]
    for index in range(num_ops):
        operands = [made[-1]] if is_chain else rng.choices(made[-4:], k=rng.choice((1, 1, 2)))
        output = [(f"t{index}", "float32", SHAPE)]
        kind = rng.random()
        if kind < 0.1:
            made.append(b.custom("Mine", operands[:1], output))
        elif kind < 0.2:
            made.append(b.op("LOCAL_RESPONSE_NORMALIZATION", operands[:1], output))
        elif kind < 0.5:
            made.append(_convolution(b, operands[0], output, rng.choice((1, 3, 5))))
        else:
            operands = operands * 2 if len(operands) == 1 and kind > 0.8 else operands
            name = "ADD" if len(operands) == 2 else rng.choice(("ABS", "LOGISTIC", "RELU"))
            made.append(b.op(name, operands, output))
    b.output(made[-1])
    return b.build().subgraphs[0]


def _convolution(
    b: ModelBuilder, x: Tensor, output: Sequence[tuple[str, str, tuple[int, ...]]], size: int
) -> Tensor:
    weights = b.constant(f"w_{output[0][0]}", np.ones((8, size, size, 8), np.float32))
    options: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
    result: Tensor = b.op("CONV_2D", [x, weights], output, **options)
    return result


def random_costs(rng: random.Random) -> CostModel:
    factor = rng.choice((0.1, 0.5, 0.9, 2))
    npu = {
        work: Rate(r.start_ns, r.row_ns * factor, r.operation_ns * factor, r.byte_ns * factor)
        for work, r in EMULATED.npu.items()
    }
    call_ns, switch_ns = rng.choice((100, 13_000)), rng.choice((0, 200_000))
    return replace(EMULATED, npu=npu, call_ns=call_ns, switch_ns=switch_ns)


def expected_ns(subgraph: Subgraph, chosen: Collection[Op], times: OpTimes) -> float:
    """Returns the expected time of a run with these ops on the NPU, with the cost model's margin of caution."""
    on_cpu = sum(times.find(op).cpu for op in subgraph.ops if op not in chosen)
    total = float(on_cpu)
    for call in calls_of(subgraph, chosen):
        ops = [subgraph.ops[position] for position in call]
        read = [t for op in ops for t in op.inputs if t and not t.is_constant]
        inputs = {t: None for t in read if t.producer not in ops}
        outputs = {
            t: None
            for op in ops
            for t in op.outputs
            if t in subgraph.outputs or any(reader not in ops for reader in t.readers)
        }
        expected = expect_call(ops, inputs, outputs.keys(), times, on_cpu)
        total += expected.npu_ns + times.costs.caution * expected.ops_ns
    return total


def calls_of(subgraph: Subgraph, chosen: Collection[Op]) -> list[list[int]]:
    dependencies = find_dependencies(subgraph, chosen)
    return find_partitions(
        dependencies, {p: 0 for p, op in enumerate(subgraph.ops) if op in chosen}
    )


def everything(subgraph: Subgraph) -> list[Op]:
    return select_ops(subgraph, LAYERS, library_ops()).taken


def every_choice(subgraph: Subgraph) -> Iterator[Sequence[Op]]:
    """Yields every possible choice of ops; each contains the custom ops."""
    ops = everything(subgraph)
    free = [op for op in ops if not op.is_custom]
    for number in range(len(free) + 1):
        for some in combinations(free, number):
            yield [op for op in ops if op.is_custom or op in some]


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_is_expected_to_take_no_longer_than_all_or_none(seed: int) -> None:
    rng = random.Random(seed)
    subgraph, costs = random_graph(rng, rng.choice((5, 20, 60))), random_costs(rng)
    chosen, possible = select(subgraph, costs).taken, everything(subgraph)
    layers = [op for op in possible if op.is_custom]
    assert set(layers) <= set(chosen) <= set(possible)
    expected = expected_ns(subgraph, chosen, times_of(costs))
    assert expected <= expected_ns(subgraph, possible, times_of(costs)) + 1e-3
    assert expected <= expected_ns(subgraph, layers, times_of(costs)) + 1e-3


@pytest.mark.parametrize("seed", range(15))
def test_no_choice_in_a_chain_is_better(seed: int) -> None:
    rng = random.Random(seed)
    subgraph = random_graph(rng, 9, is_chain=True)
    costs = replace(random_costs(rng), switch_ns=0)
    best = min(expected_ns(subgraph, choice, times_of(costs)) for choice in every_choice(subgraph))
    chosen = select(subgraph, costs).taken
    assert expected_ns(subgraph, chosen, times_of(costs)) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(10))
def test_no_way_leads_out_of_a_call_and_back(seed: int) -> None:
    rng = random.Random(seed)
    subgraph, costs = random_graph(rng, 60), random_costs(rng)
    chosen = select(subgraph, costs).taken
    dependencies = find_dependencies(subgraph, chosen)
    for call in calls_of(subgraph, chosen):
        behind: set[int] = set()  # ops outside the call that wait for it
        for position, before in enumerate(dependencies):
            waits = any(b in call or b in behind for b in before)
            if position in call:
                assert behind.isdisjoint(before)
            elif waits:
                behind.add(position)


def test_an_op_that_loses_goes_where_it_spares_a_call_and_transfers() -> None:
    """Checks two large convolutions, which gain time, with a pool between them, which does not."""
    b = ModelBuilder()
    large = (1, 64, 64, 8)
    x = b.input("x", "float32", large)
    first = _convolution(b, x, [("first", "float32", large)], 5)
    window = {"filter_height": 1, "filter_width": 1, "stride_h": 1, "stride_w": 1}
    pool = b.op("MAX_POOL_2D", [first], [("pool", "float32", large)], padding="SAME", **window)
    b.output(_convolution(b, pool, [("y", "float32", large)], 5))
    subgraph = b.build().subgraphs[0]

    def taken(pool_ns: int) -> list[str]:
        npu = {**FAST.npu, Work.WINDOW: Rate(pool_ns, 0, 0, 0)}
        costs = replace(FAST, npu=npu, call_ns=10_000, switch_ns=0)
        return [op.name for op in select(subgraph, costs).taken]

    cpu_ns = times_of().find(subgraph.ops[1]).cpu
    transfers = 2 * times_of().transfer_ns([pool])
    assert taken(cpu_ns + 5_000) == ["CONV_2D", "MAX_POOL_2D", "CONV_2D"]
    assert taken(cpu_ns + transfers + 20_000) == ["CONV_2D", "CONV_2D"]


def test_what_stays_has_numbers_in_its_reason() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    b.output(b.op("ABS", [x], [("y", "float32", SHAPE)]))
    (reason,) = select(b.build().subgraphs[0]).refused.values()
    assert reason.startswith("no clear gain is expected on the NPU: ")
    assert "us on the NPU, as a call of its own" in reason and "us on the CPU" in reason


def test_constants_that_are_dequantized_count_as_no_transfer() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    half = b.constant("half", np.ones((8, 3, 3, 8), np.float16))
    weights = b.op("DEQUANTIZE", [half], [("weights", "float32", (8, 3, 3, 8))])
    options: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
    b.output(b.op("CONV_2D", [x, weights], [("y", "float32", SHAPE)], **options))
    subgraph = b.build().subgraphs[0]
    costs = replace(FAST, call_ns=0, switch_ns=0, transfer_ns=EMULATED.cpu[Work.PRODUCT].byte_ns)
    assert len(select(subgraph, costs).taken) == 2


def test_a_dynamic_op_is_expected_at_its_largest_shape() -> None:
    def model(size: int | None) -> Op:
        b = ModelBuilder()
        shape, signature = (size or 1, 64), (-1, 64) if size is None else None
        x = b.tensor("x", "float32", shape, shape_signature=signature)
        y = b.tensor("y", "float32", shape, shape_signature=signature)
        b.op("ABS", [x], [y])
        b.output(y)
        return b.build().subgraphs[0].ops[0]

    dynamic = OpTimes(EMULATED, {"x": (100, 64), "y": (100, 64)}, lambda op: False)
    assert dynamic.find(model(None)) == times_of().find(model(100))
    assert not times_of().find(model(None)).is_known


def test_ops_without_results_stay_on_the_cpu() -> None:
    """Checks ASSIGN_VARIABLE, which has no output tensor."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    variable = b.op("VAR_HANDLE", [], [("variable", "resource", ())], shared_name="state")
    b.op("ASSIGN_VARIABLE", [variable, x], [])
    b.output(_convolution(b, x, [("y", "float32", SHAPE)], 5))
    costs = replace(FAST, call_ns=0, switch_ns=0)
    assert [op.name for op in select(b.build().subgraphs[0], costs).taken] == ["CONV_2D"]
