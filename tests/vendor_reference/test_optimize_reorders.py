"""Tests `optimize-reorders`: texts before and after the pass, and the results of random functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    ModuleOp,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, traits_def

from tests.vendor_reference.ir_texts import normal, read, run
from vendor_reference.compiler import layout_choice
from vendor_reference.compiler.ir.names import bodies
from vendor_reference.compiler.ir.text import print_ir
from vendor_reference.compiler.ir.types import element_type_of, order_of, shape_of
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.layout_choice import Puzzle, Value, order_key
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.levels.ie import ConstantOp, ConvertOp, ReorderOp
from vendor_reference.compiler.levels.layer import LayerOp, LayoutAgnostic
from vendor_reference.compiler.pass_pipeline import parse_passes, run_passes
from vendor_reference.compiler.tensor_requirements import read_requirements


@irdl_op_definition
class Add(LayerOp):
    name = "IE.Add"
    traits = traits_def(LayoutAgnostic())


@irdl_op_definition
class Tanh(LayerOp):
    name = "IE.Tanh"
    traits = traits_def(LayoutAgnostic())


LAYERS = (Add, Tanh)

Array: TypeAlias = npt.NDArray[Any]

HEAD = """
#NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
func.func private @Planar(tensor<1x2x3x4xf32, #NCHW>) -> tensor<1x2x3x4xf32, #NCHW>
    attributes {IE.input_layouts = [#NCHW], IE.output_layouts = [#NCHW]}
"""
ROW, PLANAR = "tensor<1x2x3x4xf32>", "tensor<1x2x3x4xf32, #NCHW>"
TO, BACK = f"{ROW} -> {PLANAR}", f"{PLANAR} -> {ROW}"
CALL = f"({PLANAR}) -> {PLANAR}"
TANH = f"{ROW} -> {ROW}"
PLANAR_TANH = f"{PLANAR} -> {PLANAR}"


def function(body: str, result: str, arguments: str = f"%x: {ROW}", head: str = HEAD) -> str:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    names, types = zip(*(part.split(" : ") for part in result.split("; ")), strict=True)
    returned = f"func.return {', '.join(names)} : {', '.join(types)}"
    return f"{head}func.func @main({arguments}) -> ({', '.join(types)}) {{\n{lines}\n  {returned}\n}}\n"


CASES: Mapping[str, tuple[str, str]] = {
    "two layers that agree": (
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %a = func.call @Planar(%0) : {CALL}
            %1 = IE.Reorder(%a) : {BACK}
            %2 = IE.Reorder(%1) : {TO}
            %b = func.call @Planar(%2) : {CALL}
            %3 = IE.Reorder(%b) : {BACK}""",
            f"%3 : {ROW}",
        ),
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %a = func.call @Planar(%0) : {CALL}
            %b = func.call @Planar(%a) : {CALL}
            %3 = IE.Reorder(%b) : {BACK}""",
            f"%3 : {ROW}",
        ),
    ),
    "the same reorder twice": (
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %a = func.call @Planar(%0) : {CALL}
            %1 = IE.Reorder(%x) : {TO}
            %b = func.call @Planar(%1) : {CALL}
            %c = IE.Add(%a, %b) : {PLANAR}, {PLANAR} -> {PLANAR}""",
            f"%c : {PLANAR}",
        ),
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %a = func.call @Planar(%0) : {CALL}
            %b = func.call @Planar(%0) : {CALL}
            %c = IE.Add(%a, %b) : {PLANAR}, {PLANAR} -> {PLANAR}""",
            f"%c : {PLANAR}",
        ),
    ),
    "through a chain of ops that take any layout": (
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %a = func.call @Planar(%0) : {CALL}
            %1 = IE.Reorder(%a) : {BACK}
            %t = IE.Tanh(%1) : {TANH}
            %u = IE.Tanh(%t) : {TANH}
            %2 = IE.Reorder(%u) : {TO}
            %b = func.call @Planar(%2) : {CALL}""",
            f"%b : {PLANAR}",
        ),
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %a = func.call @Planar(%0) : {CALL}
            %t = IE.Tanh(%a) : {PLANAR_TANH}
            %u = IE.Tanh(%t) : {PLANAR_TANH}
            %b = func.call @Planar(%u) : {CALL}""",
            f"%b : {PLANAR}",
        ),
    ),
    "where two are added, one reorder behind is less than two in front": (
        function(
            f"""%a = func.call @Planar(%x) : {CALL}
            %b = func.call @Planar(%a) : {CALL}
            %1 = IE.Reorder(%a) : {BACK}
            %2 = IE.Reorder(%b) : {BACK}
            %c = IE.Add(%1, %2) : {ROW}, {ROW} -> {ROW}""",
            f"%c : {ROW}",
            f"%x: {PLANAR}",
        ),
        function(
            f"""%a = func.call @Planar(%x) : {CALL}
            %b = func.call @Planar(%a) : {CALL}
            %c = IE.Add(%a, %b) : {PLANAR}, {PLANAR} -> {PLANAR}
            %0 = IE.Reorder(%c) : {BACK}""",
            f"%0 : {ROW}",
            f"%x: {PLANAR}",
        ),
    ),
    "a constant lies as its reader wants it": (
        function(
            f"""%w = IE.Constant {ROW} = dense_resource<constant_0>
            %0 = IE.Reorder(%w) : {TO}
            %a = func.call @Planar(%0) : {CALL}""",
            f"%a : {PLANAR}",
        ),
        function(
            f"""%0 = IE.Constant {PLANAR} = dense_resource<constant_0>
            %a = func.call @Planar(%0) : {CALL}""",
            f"%a : {PLANAR}",
        ),
    ),
    "a conversion is done before, as halves are less to move": (
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %1 = IE.Convert(%0) : {PLANAR} -> tensor<1x2x3x4xf16, #NCHW>""",
            "%1 : tensor<1x2x3x4xf16, #NCHW>",
        ),
        function(
            f"""%0 = IE.Convert(%x) : {ROW} -> tensor<1x2x3x4xf16>
            %1 = IE.Reorder(%0) : tensor<1x2x3x4xf16> -> tensor<1x2x3x4xf16, #NCHW>""",
            "%1 : tensor<1x2x3x4xf16, #NCHW>",
        ),
    ),
    "one reorder in front of all that read it": (
        function(
            f"""%a = IE.Tanh(%x) : {TANH}
            %b = IE.Tanh(%x) : {TANH}
            %0 = IE.Reorder(%a) : {TO}
            %1 = IE.Reorder(%b) : {TO}""",
            f"%0 : {PLANAR}; %1 : {PLANAR}",
        ),
        function(
            f"""%0 = IE.Reorder(%x) : {TO}
            %a = IE.Tanh(%0) : {PLANAR_TANH}
            %b = IE.Tanh(%0) : {PLANAR_TANH}""",
            f"%a : {PLANAR}; %b : {PLANAR}",
        ),
    ),
    "what a function takes and gives stays": (
        function(f"%0 = IE.Reorder(%x) : {TO}", f"%0 : {PLANAR}"),
        function(f"%0 = IE.Reorder(%x) : {TO}", f"%0 : {PLANAR}"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reorders_go_away(name: str) -> None:
    before, after = CASES[name]
    assert run(before, "optimize-reorders", LAYERS) == normal(after, LAYERS)
    assert run(after, "optimize-reorders", LAYERS) == normal(after, LAYERS)


def test_a_layer_that_takes_what_comes_gets_it() -> None:
    """Checks that a call gets an external function of its own if another call of the layer has row order."""
    head = HEAD + f'func.func private @Any({ROW}) -> {ROW} attributes {{VPUIP.task = "OCL"}}\n'
    before = function(
        f"""%a = func.call @Planar(%x) : {CALL}
        %1 = IE.Reorder(%a) : {BACK}
        %b = func.call @Any(%1) : ({ROW}) -> {ROW}
        %c = func.call @Any(%b) : ({ROW}) -> {ROW}""",
        f"%c : {ROW}",
        f"%x: {PLANAR}",
        head,
    )
    after = run(before, "optimize-reorders", LAYERS)
    assert "IE.Reorder" not in after
    assert f"%b = func.call @Any(%a) : ({PLANAR}) -> {ROW}" in after
    assert f"%c = func.call @Any_1(%b) : ({ROW}) -> {ROW}" in after


def test_a_repeated_operand_of_another_rank_stays_as_it_is() -> None:
    before = function(
        f"""%a = func.call @Planar(%x) : {CALL}
        %1 = IE.Reorder(%a) : {BACK}
        %c = IE.Add(%1, %bias) : {ROW}, tensor<4xf32> -> {ROW}
        %2 = IE.Reorder(%c) : {TO}""",
        f"%2 : {PLANAR}",
        f"%x: {PLANAR}, %bias: tensor<4xf32>",
    )
    after = run(before, "optimize-reorders", LAYERS)
    assert "IE.Reorder" not in after
    assert f"IE.Add(%a, %bias) : {PLANAR}, tensor<4xf32> -> {PLANAR}" in after


# The tests below compute random functions with NumPy; a tensor is its bytes in memory order.

SHAPE = (2, 3, 4, 1)
ORDERS = [(0, 1, 2, 3), (0, 3, 1, 2), (1, 2, 0, 3), (3, 1, 0, 2), (2, 1, 0, 3)]
LETTERS = "nhwc"


def tensor(order: Sequence[int], elements: str = "f32") -> str:
    dims = "x".join(map(str, SHAPE))
    results = ", ".join(LETTERS[d] for d in order)
    layout = f", affine_map<(n, h, w, c) -> ({results})>" if list(order) != sorted(order) else ""
    return f"tensor<{dims}x{elements}{layout}>"


@st.composite
def functions(draw: st.DrawFn) -> str:
    """Draws a function whose layers ask for orders; `adjust-layouts` has not run yet."""
    pairs = draw(
        st.lists(
            st.tuples(*[st.sampled_from([None, *range(len(ORDERS))])] * 2), min_size=1, max_size=4
        )
    )
    row = tensor(ORDERS[0])

    def layout(order: int | None) -> str:
        if order is None:
            return "unit"
        return f"affine_map<(n, h, w, c) -> ({', '.join(LETTERS[d] for d in ORDERS[order])})>"

    lines = [
        f"func.func private @L{i}({row}) -> {row} attributes "
        f"{{IE.input_layouts = [{layout(a)}], IE.output_layouts = [{layout(b)}]}}"
        for i, (a, b) in enumerate(pairs)
    ]
    lines.append("")
    names = ["%v0", "%v1"]
    for index in range(draw(st.integers(1, 14))):
        name = f"%v{index + 2}"
        pick = st.sampled_from(names[-4:])
        kind = draw(st.sampled_from(["call", "call", "tanh", "add", "convert", "constant"]))
        if kind == "call":
            layer = draw(st.integers(0, len(pairs) - 1))
            lines.append(f"  {name} = func.call @L{layer}({draw(pick)}) : ({row}) -> {row}")
        elif kind == "tanh":
            lines.append(f"  {name} = IE.Tanh({draw(pick)}) : {row} -> {row}")
        elif kind == "add":
            lines.append(f"  {name} = IE.Add({draw(pick)}, {draw(pick)}) : {row}, {row} -> {row}")
        elif kind == "constant":
            numbers = np.arange(24, dtype=np.float32).reshape(SHAPE) / 16 + index
            lines.append(f"  {name} = IE.Constant {row} = dense<{numbers.tolist()}>")
        else:
            half = tensor(ORDERS[0], "f16")
            lines.append(f"  {name}h = IE.Convert({draw(pick)}) : {row} -> {half}")
            lines.append(f"  {name} = IE.Convert({name}h) : {half} -> {row}")
        names.append(name)
    results = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    lines.append(f"  func.return {', '.join(results)} : {', '.join([row] * len(results))}\n}}")
    types = ", ".join([row] * len(results))
    lines[len(pairs)] = f"func.func @main(%v0: {row}, %v1: {row}) -> ({types}) {{"
    return "\n".join(lines)


class Memory:
    """The bytes of a tensor, which its type's order turns into values."""

    def __init__(self, value: SSAValue, logical: Array) -> None:
        self.flat = logical.transpose(order_of(value.type)).ravel()

    def logical(self, value: SSAValue) -> Array:
        order = order_of(value.type)
        lies: Array = self.flat.reshape([shape_of(value.type)[d] for d in order])
        return np.transpose(lies, np.argsort(order))


def interpret(block: Block, arguments: Sequence[Array]) -> list[Array]:
    """Runs a function and returns its results; asserts that layout-agnostic ops have tensors of one order."""
    memory = {v: Memory(v, array) for v, array in zip(block.args, arguments, strict=True)}
    for op in block.ops:
        values = [memory[operand].logical(operand) for operand in op.operands]
        if isinstance(op, ReturnOp):
            return values
        if isinstance(op, LayerOp) and op.has_trait(LayoutAgnostic):
            assert len({order_of(v.type) for v in (*op.operands, *op.results)}) == 1
        for result in op.results:
            memory[result] = Memory(result, compute(op, values))
    raise AssertionError("no return")


def compute(op: Operation, values: Sequence[Array]) -> Array:
    if isinstance(op, ConstantOp):
        assert isinstance(op.value, DenseIntOrFPElementsAttr)
        return np.array(op.value.get_values(), np.float32).reshape(SHAPE)
    if isinstance(op, ReorderOp):
        return values[0]
    if isinstance(op, ConvertOp):
        return values[0].astype(element_type_of(op.outputs[0].type).numpy_dtype)
    if isinstance(op, CallOp):
        seed = int(op.callee.root_reference.data[1])  # @L3_1 is @L3 for other layouts
        places = np.arange(24, dtype=np.float32).reshape(SHAPE)
        made: Array = np.cos(values[0] * np.float32(seed + 1) + places)
        return made
    return np.tanh(values[0]) if isinstance(op, Tanh) else np.add(values[0], values[1])


def moving(block: Block) -> int:
    """Counts the reorders that move bytes; the place of a dimension of size 1 does not matter."""

    def key(value: SSAValue) -> list[int]:
        return [d for d in order_of(value.type) if shape_of(value.type)[d] != 1]

    return sum(
        key(op.inputs[0]) != key(op.outputs[0]) for op in block.ops if isinstance(op, ReorderOp)
    )


@given(functions())
@settings(max_examples=100, deadline=None)
def test_random_functions_mean_the_same_with_fewer_reorders(text: str) -> None:
    context = make_context(LAYERS)
    ir = read(text, LAYERS)
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(2)]
    results, counts, types = [], [], []
    for passes in ("", "adjust-layouts", "optimize-reorders", "optimize-reorders"):
        run_passes(context, ir.module, parse_passes(passes))
        check_ir(ir.module)
        ((main, block),) = bodies(ir.module)
        results.append(interpret(block, arguments))
        counts.append(moving(block))
        types.append(main.function_type)
        if passes:
            check_requirements(ir.module)
    assert types[1:] == types[:-1]
    for after in results[1:]:
        np.testing.assert_array_equal(np.array(results[0]), np.array(after))
    assert counts[3] <= counts[2] <= counts[1]


def check_requirements(module: ModuleOp) -> None:
    """Checks that called layers have the types that they require."""
    called = {op.callee.root_reference.data for op in module.walk() if isinstance(op, CallOp)}
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data in called:
            wanted = read_requirements(op.attributes, 1, 1)
            for asked, found in zip(
                (*wanted.inputs, *wanted.outputs),
                (*op.function_type.inputs, *op.function_type.outputs),
                strict=True,
            ):
                assert asked.layout in (None, order_of(found))


@st.composite
def puzzles(draw: st.DrawFn) -> Puzzle:
    """Draws a forest of groups, each of which reads one value of the function or of an earlier group."""
    orders = st.sampled_from(ORDERS)
    puzzle = Puzzle([Value(SHAPE, draw(st.integers(1, 9)), draw(orders)) for _ in range(3)])
    readable = list(puzzle.values)
    for group in range(draw(st.integers(1, 4))):
        puzzle.orders.append(draw(orders))
        source = draw(st.sampled_from(readable))
        source.readers[group] += 1
        readable = [value for value in readable if value is not source]
        made = Value(SHAPE, draw(st.integers(1, 9)), (), group, draw(st.lists(orders, max_size=2)))
        puzzle.values.append(made)
        readable.append(made)
    return puzzle


def cost(puzzle: Puzzle, orders: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """Returns the number of reorders, and the bytes that they move."""
    count = size = 0
    for value in puzzle.values:
        own = value.order if value.group is None else orders[value.group]
        wanted = {*value.wanted, *(orders[group] for group in value.readers)}
        extra = len({order_key(SHAPE, o) for o in wanted} - {order_key(SHAPE, own)})
        count, size = count + extra, size + extra * value.size_bytes
    return count, size


@given(puzzles())
@settings(max_examples=100, deadline=None)
def test_where_each_value_has_one_reader_no_choice_is_better(puzzle: Puzzle) -> None:
    found = cost(puzzle, puzzle.choose())
    assert found == min(cost(puzzle, o) for o in product(ORDERS, repeat=len(puzzle.orders)))


def steps_of_a_network(size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Counts the steps for a chain of layers with their own order, between ops that take any order."""
    lines = []
    for i in range(size):
        lines += [
            f"%p{i} = IE.Reorder({f'%s{i - 1}' if i else '%x'}) : {TO}",
            f"%q{i} = func.call @Planar(%p{i}) : {CALL}",
            f"%r{i} = IE.Reorder(%q{i}) : {BACK}",
            f"%t{i} = IE.Tanh(%r{i}) : {TANH}",
            f"%s{i} = IE.Add(%t{i}, %x) : {ROW}, {ROW} -> {ROW}",
        ]
    ir = read(function("\n".join(lines), f"%s{size - 1} : {ROW}"), LAYERS)
    steps = 0

    def counted(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
        nonlocal steps
        steps += 1
        return order_key(shape, order)

    monkeypatch.setattr(layout_choice, "order_key", counted)
    run_passes(make_context(LAYERS), ir.module, parse_passes("optimize-reorders"))
    assert print_ir(ir.module).count("IE.Reorder") == 2
    return steps


def test_steps_grow_with_the_network_and_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks this for ops that all read the function's input."""
    few, many = (steps_of_a_network(size, monkeypatch) for size in (20, 160))
    assert many < 10 * few
