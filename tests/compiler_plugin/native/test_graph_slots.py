"""Tests what a plugin reads of the graph through the compiler context."""

from __future__ import annotations

from typing import Any

import pytest

from compiler_plugin.native import graph_slots
from compiler_plugin.native.compiler_context import CompilerContext
from litert.abi.definitions import ffi
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Op, Subgraph, Tensor

F32 = ("float32", (4,))


def many_readers(count: int) -> Subgraph:
    """Returns a graph whose ops each read one tensor three times; every other op leaves out an input."""
    builder = ModelBuilder()
    x, other = builder.input("x", *F32), builder.input("other", *F32)
    for index in range(count):
        inputs = [None, x, other, x, x][index % 2 :]
        builder.output(builder.custom("Many", inputs, [(f"y{index}", *F32)]))
    return builder.build().subgraphs[0]


def uses(context: CompilerContext, tensor: Tensor) -> list[tuple[Op, int]]:
    table: Any = context.table
    handle = ffi.cast("LiteRtTensor", context.handles.of(tensor))
    number, argument = ffi.new("LiteRtParamIndex*"), ffi.new("LiteRtParamIndex*")
    op = ffi.new("LiteRtOp*")
    assert table.get_num_tensor_uses(handle, number) == 0
    found = []
    for index in range(number[0]):
        assert table.get_tensor_use(handle, index, op, argument) == 0
        found.append((context.handles.get(op[0], Op), int(argument[0])))
    assert table.get_tensor_use(handle, number[0], op, argument) == Status.INDEX_OOB
    return found


def test_a_tensor_is_used_by_each_op_as_often_as_it_reads_it() -> None:
    subgraph = many_readers(3)
    context = CompilerContext.take("Acme")
    with context.showing(subgraph):
        x, other = (uses(context, tensor) for tensor in subgraph.inputs)
        assert uses(context, subgraph.outputs[0]) == []
    assert x == [(op, place) for op in subgraph.ops for place in (0, 2, 3)]
    assert other == [(op, 1) for op in subgraph.ops]
    context.close()


def test_uses_are_found_once_and_anew_in_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tensor] = []
    find = graph_slots._find_uses

    def find_uses(tensor: Tensor) -> Any:
        asked.append(tensor)
        return find(tensor)

    monkeypatch.setattr(graph_slots, "_find_uses", find_uses)
    subgraph = many_readers(50)
    x = subgraph.inputs[0]
    context = CompilerContext.take("Acme")
    with context.showing(subgraph):
        assert len(uses(context, x)) == len(uses(context, x)) == 150
    assert asked == [x]
    subgraph.ops.pop().release()
    with context.showing(subgraph):
        assert len(uses(context, x)) == 147
    assert asked == [x, x]
    context.close()


def test_tensors_of_many_subgraphs_are_each_of_their_own() -> None:
    builder = ModelBuilder()
    graphs = [builder, *[builder.subgraph(f"g{index}") for index in range(20)]]
    for graph in graphs:
        graph.output(graph.op("NEG", [graph.input("x", *F32)], [("y", *F32)]))
    subgraphs = builder.build().subgraphs
    context = CompilerContext.take("Acme")
    index = ffi.new("uint32_t*")
    with context.showing(subgraphs[0]):
        for subgraph in subgraphs:
            context.handles.of(subgraph)
        for subgraph in reversed(subgraphs):
            handles = [context.handles.of(tensor) for tensor in subgraph.tensors]
            assert handles[1] - handles[0] == 16  # handles of a subgraph's tensors are consecutive
            for place, handle in enumerate(handles):
                tensor = ffi.cast("LiteRtTensor", handle)
                assert context.table.get_tensor_index(tensor, index) == 0
                assert index[0] == place
    context.close()
