"""Tests that a partition becomes a subgraph, and that a call replaces its ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_plugin.dependencies import find_dependencies
from compiler_plugin.effects import why_cpu_only
from compiler_plugin.leftovers import find_results
from compiler_plugin.outline import extract, make_partition, replace_partitions
from compiler_plugin.partition import find_partitions
from litert.core.errors import LiteRtError
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import is_dispatch_op
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor, builtin_name
from litert.model.reader import read_model
from litert.model.writer import to_bytes

F32 = ("float32", (4,))


def outline(model: Model, *groups: Sequence[int]) -> list[Subgraph]:
    """Replaces groups of ops in the main subgraph by calls; returns the copies that a vendor gets."""
    subgraph = model.subgraphs[0]
    selected = {subgraph.ops[place] for group in groups for place in group}
    dependencies = find_dependencies(subgraph, selected)
    results = find_results(model, subgraph)
    partitions = [make_partition(str(i), subgraph, g, results) for i, g in enumerate(groups)]
    copies = extract(partitions)
    replace_partitions(model, [(dependencies, partitions)])
    return copies


def names(tensors: Sequence[Tensor | None]) -> list[str]:
    return [tensor.name if tensor else "-" for tensor in tensors]


def check_links(subgraph: Subgraph) -> None:
    """Checks that producers and uses match the ops, and that each tensor belongs to the subgraph."""
    own = set(subgraph.tensors)
    for tensor in subgraph.tensors:
        readers = [op for op in subgraph.ops for t in op.inputs if t is tensor]
        assert sorted(map(id, tensor.uses)) == sorted(map(id, readers))
        producers = [op for op in subgraph.ops if tensor in op.outputs]
        assert producers == ([tensor.producer] if tensor.producer else [])
    for op in subgraph.ops:
        assert own.issuperset(t for t in (*op.inputs, *op.outputs, *op.intermediates) if t)
    assert own.issuperset([*subgraph.inputs, *subgraph.outputs])


def three_ops() -> Model:
    """Returns the model x -> A(x, w) -> a -> B(a) -> b -> C(b, w)."""
    b = ModelBuilder()
    x = b.input("x", *F32)
    w = b.constant("w", np.arange(4, dtype=np.float32))
    a = b.custom("A", [x, w], [("a", *F32)], options={"alpha": 0.5})
    m = b.custom("B", [a], [("b", *F32)], options=b"\1\2\3\4")
    b.output(b.custom("C", [m, w], [("c", *F32)]))
    return b.build()


def test_a_partition_has_its_ops_and_tensors() -> None:
    model = three_ops()
    original = model.subgraphs[0].ops[:2]
    (copy,) = outline(model, [0, 1])
    check_links(copy)
    assert [op.name for op in copy.ops] == ["A", "B"]
    assert [names(op.inputs) for op in copy.ops] == [["x", "w"], ["a"]]
    assert (names(copy.inputs), names(copy.outputs)) == (["x"], ["b"])
    for op, old in zip(copy.ops, original, strict=True):
        assert op.custom_options and old.custom_options
        assert bytes(op.custom_options) == bytes(old.custom_options)
    constant = copy.ops[0].inputs[1]
    assert constant and constant.data.tobytes() == np.arange(4, dtype=np.float32).tobytes()


def test_one_call_stands_in_its_place() -> None:
    model = three_ops()
    outline(model, [0, 1])
    main = model.subgraphs[0]
    check_links(main)
    assert [op.name for op in main.ops] == ["DISPATCH_OP", "C"]
    assert (names(main.ops[0].inputs), names(main.ops[0].outputs)) == (["x"], ["b"])
    assert names(main.tensors) == ["x", "w", "b", "c"]
    assert [code.custom_code for code in model.operator_codes] == ["C", "DISPATCH_OP"]


def test_an_input_that_is_read_twice_is_one() -> None:
    b = ModelBuilder()
    x, y = b.input("x", *F32), b.input("y", *F32)
    b.output(b.op("MUL", [b.op("MUL", [y, x], [("a", *F32)]), x], [("b", *F32)]))
    model = b.build()
    (copy,) = outline(model, [0, 1])
    (call,) = model.subgraphs[0].ops
    assert names(copy.inputs) == names(call.inputs) == ["x", "y"]  # in the subgraph's order
    assert [names(op.inputs) for op in copy.ops] == [["y", "x"], ["a", "x"]]


def test_what_is_read_inside_and_outside_is_an_output() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    a = b.custom("A", [x], [("a", *F32)])
    m = b.custom("B", [a], [("b", *F32)])
    b.output(a, b.custom("C", [m], [("c", *F32)]))
    (copy,) = outline(b.build(), [0, 1])
    assert names(copy.outputs) == ["a", "b"]


def test_an_output_that_only_a_signature_names_stays() -> None:
    b = ModelBuilder()
    a, unread = b.custom("A", [b.input("x", *F32)], [("a", *F32), ("unread", *F32)])
    b.output(a)
    b.signature("main", outputs={"a": a, "second": unread})
    (copy,) = outline(b.build(), [0])
    assert names(copy.outputs) == ["a", "unread"]


def test_a_buffer_without_bytes_is_no_constant() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    x.buffer = Buffer(Blob(b""))
    b.output(b.custom("A", [x], [("a", *F32)]))
    (copy,) = outline(read_model(to_bytes(b.build())), [0])
    assert names(copy.inputs) == ["x"]


def test_optional_inputs_stay_left_out() -> None:
    b = ModelBuilder()
    b.output(b.custom("A", [None, b.input("x", *F32), None], [("a", *F32)]))
    (copy,) = outline(b.build(), [0])
    assert names(copy.ops[0].inputs) == ["-", "x", "-"]
    assert names(copy.inputs) == ["x"]


def test_what_the_ops_alone_used_is_dropped_and_nothing_else() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    shared = b.constant("shared", np.ones(4, np.float32))
    own = b.constant("own", np.zeros(4, np.float32))
    b.constant("unused", np.zeros(4, np.float32))
    b.tensor("floating", *F32)
    a = b.custom("A", [x, shared, own], [("a", *F32), ("never read", *F32)])[0]
    b.output(b.custom("C", [a, shared], [("c", *F32)]))
    model = b.build()
    model.buffers.append(Buffer(Blob(b"unused, too")))
    before = len(model.buffers)
    outline(model, [0])
    assert names(model.subgraphs[0].tensors) == ["x", "shared", "unused", "floating", "a", "c"]
    assert len(model.buffers) == before - 1
    assert own.buffer not in model.buffers


def test_a_buffer_that_another_subgraph_has_stays() -> None:
    b = ModelBuilder()
    w = b.constant("w", np.ones(4, np.float32))
    b.output(b.custom("A", [b.input("x", *F32), w], [("a", *F32)]))
    other = b.subgraph("other")
    other.output(
        other.custom(
            "B", [other.input("x", *F32), other.constant("w", w.buffer, *F32)], [("b", *F32)]
        )
    )
    model = b.build()
    outline(model, [0])
    assert w.buffer in model.buffers


def test_block_scales_come_along_and_others_keep_theirs() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    weights = []
    for name in "ab":
        scales = b.constant(f"{name} scales", np.ones(2, np.float16))
        quantization = Quantization(blockwise=BlockwiseQuantization(scales, None, 2))
        weights.append(
            b.constant(name, np.zeros((2, 2), np.int8), "int8", (2, 2), quantization=quantization)
        )
    a = b.custom("A", [x, weights[0]], [("y", *F32)])
    b.output(b.custom("B", [a, weights[1]], [("z", *F32)]))
    model = read_model(to_bytes(b.build()))
    (copy,) = outline(model, [0])
    quantization = copy.ops[0].inputs[1].quantization  # type: ignore[union-attr, assignment]
    assert quantization.blockwise and quantization.blockwise.scales in copy.tensors
    assert "a scales" not in names(model.subgraphs[0].tensors)
    again = read_model(to_bytes(model))
    (left,) = [tensor for tensor in again.subgraphs[0].tensors if tensor.name == "b"]
    assert left.quantization and left.quantization.blockwise
    assert left.quantization.blockwise.scales.name == "b scales"  # type: ignore[union-attr]


def test_a_vendor_may_change_what_it_is_given() -> None:
    model = three_ops()
    subgraph = model.subgraphs[0]
    before = to_bytes(model)
    (copy,) = extract([make_partition("p", subgraph, [0, 1], find_results(model, subgraph))])
    for tensor in copy.tensors:
        tensor.buffer.blob, tensor.name = Blob(b""), "changed"
    for op in copy.ops:
        op.release()
    assert to_bytes(model) == before


@pytest.mark.parametrize("kind", ["variable", "resource", "string", "control flow"])
def test_state_strings_and_control_flow_stay_on_the_cpu(kind: str) -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    if kind == "variable":
        state = b.tensor("state", *F32, is_variable=True)
        b.op("ADD", [x, state], [("y", *F32)])
    elif kind == "resource":
        b.op("VAR_HANDLE", [], [("handle", "RESOURCE", (1,))])
    elif kind == "string":
        b.custom("Text", [x], [("words", "STRING", (1,))])
    else:
        body = b.subgraph("body")
        body.output(body.input("x", *F32))
        b.op("CALL", [x], [("y", *F32)], subgraph=body)
    assert why_cpu_only(b.build().subgraphs[0].ops[0])


def test_ops_with_side_effects_keep_their_order() -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    a = b.custom("Npu", [x], [("a", *F32)])
    first = b.custom("Print", [a], [("p", *F32)])
    second = b.custom("Read", [x], [("r", *F32)])
    b.output(first, b.custom("Npu", [second, a], [("d", *F32)]))
    subgraph = b.build().subgraphs[0]
    selected = {op for op in subgraph.ops if op.name == "Npu"}
    dependencies = find_dependencies(subgraph, selected)
    assert dependencies == [[], [0], [1], [0, 2]]
    # Together, the two Npu ops would have to run before Print and after Read, which follows Print.
    assert find_partitions(dependencies, {0: 0, 3: 0}) == [[0], [3]]


@pytest.mark.parametrize("damage", ["read before it is written", "written twice"])
def test_a_graph_without_an_order_is_refused(damage: str) -> None:
    model = three_ops()
    subgraph = model.subgraphs[0]
    if damage == "written twice":
        subgraph.ops[2].append_output(subgraph.ops[0].outputs[0])
    else:
        subgraph.ops.reverse()
    with pytest.raises(LiteRtError) as error:
        find_dependencies(subgraph, ())
    assert error.value.status is Status.INVALID_GRAPH_INVARIANT


Value = Any


def evaluate(subgraph: Subgraph, inputs: Sequence[Value], calls: dict[Op, Subgraph]) -> list[Value]:
    """Returns a subgraph's results as nested tuples; raises KeyError if a tensor is read too early."""
    values: dict[Tensor, Value] = dict(zip(subgraph.inputs, inputs, strict=True))

    def value(tensor: Tensor | None) -> Value:
        if tensor is None:
            return None
        return bytes(tensor.data) if tensor.is_constant else values[tensor]

    for op in subgraph.ops:
        arguments = [value(tensor) for tensor in op.inputs]
        if is_dispatch_op(op):
            results = evaluate(calls[op], arguments, {})
        else:
            results = [(op.name, i, hash(tuple(arguments))) for i, _ in enumerate(op.outputs)]
        values.update(zip(op.outputs, results, strict=True))
    return [value(tensor) for tensor in subgraph.outputs]


@st.composite
def models(draw: st.DrawFn) -> tuple[Model, dict[int, int]]:
    """Draws a random model of builtin and custom ops, and the ops that a plugin takes."""
    b = ModelBuilder()
    tensors: list[Tensor | None] = [None]
    tensors += [b.input(f"x{i}", *F32) for i in range(draw(st.integers(1, 3)))]
    tensors += [b.constant(f"w{i}", np.full(4, i, np.float32)) for i in range(2)]
    size = draw(st.integers(1, 12))
    for index in range(size):
        inputs = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
        outputs = [(f"t{index}_{i}", *F32) for i in range(draw(st.integers(1, 2)))]
        made = b.custom(f"Op{index}", inputs, outputs, options={"index": index})
        tensors += [made] if isinstance(made, Tensor) else made
    produced = [tensor for tensor in tensors if tensor and tensor.producer]
    b.output(*draw(st.lists(st.sampled_from(produced), min_size=1, max_size=3, unique=True)))
    return b.build(), draw(st.dictionaries(st.integers(0, size - 1), st.integers(0, 1)))


@given(models())
def test_a_model_computes_the_same_with_calls_in_it(case: tuple[Model, dict[int, int]]) -> None:
    model, selected = case
    main = model.subgraphs[0]
    inputs = [tensor.name for tensor in main.inputs]
    expected = evaluate(main, inputs, {})
    dependencies = find_dependencies(main, {main.ops[place] for place in selected})
    results = find_results(model, main)
    found = find_partitions(dependencies, selected)
    partitions = [make_partition(str(i), main, group, results) for i, group in enumerate(found)]
    copies = extract(partitions)
    (calls,) = replace_partitions(model, [(dependencies, partitions)])
    for subgraph in (main, *copies):
        check_links(subgraph)
    by_call = dict(zip(calls, copies, strict=True))
    assert evaluate(main, inputs, by_call) == expected
    for op in calls:
        assert len(set(op.inputs)) == len(op.inputs)
        assert not any(tensor is None or tensor.is_constant for tensor in op.inputs)


@pytest.mark.parametrize("kept", [(), (1,), (0, 1)], ids=str)
def test_what_several_subgraphs_share_goes_with_the_last_that_has_it(kept: Sequence[int]) -> None:
    builder = ModelBuilder()
    builder.output(builder.op("NEG", [builder.input("x", *F32)], [("y", *F32)]))
    two: Buffer | npt.NDArray[np.float32] = np.full(4, 2, np.float32)
    for name in ("first", "second"):
        graph = builder.subgraph(name)
        weights = graph.constant("two", two, *F32)
        two = weights.buffer
        graph.output(graph.op("MUL", [graph.input("a", *F32), weights], [("b", *F32)]))
    model = builder.build()
    chosen = [graph for number, graph in enumerate(model.subgraphs[1:]) if number not in kept]
    every = [make_partition(g.name, g, [0], find_results(model, g)) for g in chosen]
    calls = replace_partitions(model, [([[]], [partition]) for partition in every])
    assert [len(some) for some in calls] == [1] * len(chosen)
    assert (two in model.buffers) is bool(kept)
    names_left = {builtin_name(code.builtin_code) for code in model.operator_codes}
    assert ("MUL" in names_left) is bool(kept)
