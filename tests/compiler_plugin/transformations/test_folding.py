"""Tests constant folding: stock LiteRT's kernels compute the values, within a size limit, from constants only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin.transformations.builtin.middle.fold_constants import FoldConstants
from compiler_plugin.transformations.builtin.middle.fold_dequantize import FoldDequantize
from compiler_plugin.transformations.graph import Graph
from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor
from litert.model.reader import read_model
from litert.model.table import Table
from litert.model.writer import to_bytes
from tests.compiler_plugin.transformations.graphs import graph_of, static_graph_of

MIB = 1 << 20


def names(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def run(model: Model, *, xnnpack: bool = False) -> list[np.ndarray[Any, Any]]:
    kernels = "AUTO" if xnnpack else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
    interpreter = Interpreter(
        model_content=to_bytes(model), experimental_op_resolver_type=OpResolverType[kernels]
    )
    interpreter.allocate_tensors()
    random = np.random.default_rng(0)
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], random.random(details["shape"], np.float32))
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


def values(graph: Graph, op: str, index: int) -> Any:
    return graph.get_op_nodes(op=op)[0].in_port(index).data.get_value()


def dense(weights: Any, quantization: Quantization | None = None) -> ModelBuilder:
    """Builds x [1, 4] -> FULLY_CONNECTED with DEQUANTIZE(weights) [3, 4]."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    small = b.constant("small", weights, quantization=quantization)
    w = b.op("DEQUANTIZE", [small], [("w", "float32", (3, 4))])
    b.output(b.op("FULLY_CONNECTED", [x, w, None], [("y", "float32", (1, 3))]))
    return b


KINDS: dict[str, tuple[Any, Quantization | None]] = {
    "float16": (np.linspace(-2, 2, 12, dtype=np.float16).reshape(3, 4), None),
    "int8": (np.arange(-6, 6, dtype=np.int8).reshape(3, 4), Quantization([0.3], [2])),
    "int8 per channel": (
        np.arange(-6, 6, dtype=np.int8).reshape(3, 4),
        Quantization([0.3, 0.1, 7.5], [0, 0, 0]),
    ),
    "uint8": (np.arange(12, dtype=np.uint8).reshape(3, 4), Quantization([0.5], [128])),
    "int16": (np.arange(12, dtype=np.int16).reshape(3, 4), Quantization([0.01], [0])),
}


@pytest.mark.parametrize("weights, quantization", KINDS.values(), ids=KINDS)
def test_dequantized_weights_are_those_of_stock(weights: Any, quantization: Any) -> None:
    model = dense(weights, quantization).build()
    expected = run(model)
    graph = graph_of(model)
    assert FoldDequantize().find_and_replace_pattern(graph) == 1
    assert names(graph) == ["FULLY_CONNECTED"]
    weights = graph.get_op_nodes()[0].in_port(1).get_source()
    assert weights is not None and weights.node.is_const and weights.name == "w"
    graph.infer()
    graph.topological_sort()
    assert all(map(np.array_equal, run(model), expected))


def test_dequantize_of_int4_is_folded_too() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    small = b.constant(
        "small", np.arange(-6, 6).reshape(3, 4), "int4", quantization=Quantization([0.5], [0])
    )
    w = b.op("DEQUANTIZE", [small], [("w", "float32", (3, 4))])
    b.output(b.op("FULLY_CONNECTED", [x, w, None], [("y", "float32", (1, 3))]))
    graph = graph_of(b.build())
    assert FoldDequantize().find_and_replace_pattern(graph) == 1
    assert np.array_equal(values(graph, "FULLY_CONNECTED", 1), np.arange(-6, 6).reshape(3, 4) / 2)


def test_a_chain_of_constants_becomes_one() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    w = b.constant("w", np.arange(6, dtype=np.float32).reshape(3, 2))
    two = b.constant("two", np.float32(2))
    turned = b.op(
        "TRANSPOSE", [w, b.constant("p", np.array([1, 0], np.int32))], [("t", "float32", (2, 3))]
    )
    scaled = b.op("MUL", [turned, two], [("s", "float32", (2, 3))])
    b.output(b.op("ADD", [x, scaled], [("y", "float32", (2, 3))]))
    graph = graph_of(b.build())
    assert FoldConstants().find_and_replace_pattern(graph) == 2
    assert names(graph) == ["ADD"]
    assert np.array_equal(values(graph, "ADD", 1), 2 * np.arange(6).reshape(3, 2).T)


def growing() -> Model:
    """Builds x + BROADCAST_TO(constant * constant), where folding would turn 4 bytes into 4,000."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1000,))
    one, two = (b.constant(f"c{i}", np.array([i], np.float32)) for i in (1, 2))
    product = b.op("MUL", [one, two], [("product", "float32", (1,))])
    shape = b.constant("shape", np.array([1000], np.int32))
    many = b.op("BROADCAST_TO", [product, shape], [("many", "float32", (1000,))], version=2)
    b.output(b.op("ADD", [x, many], [("y", "float32", (1000,))]))
    return b.build()


def test_what_would_grow_too_much_stays_and_what_it_reads_is_folded() -> None:
    graph = graph_of(growing(), fold_limit=3000)
    assert FoldConstants().find_and_replace_pattern(graph) == 1
    assert names(graph) == ["BROADCAST_TO", "ADD"]
    assert values(graph, "BROADCAST_TO", 0).tolist() == [2]
    graph = graph_of(growing(), fold_limit=5000)
    assert FoldConstants().find_and_replace_pattern(graph) == 2
    assert 900 < graph.fold_limit < 1100


def test_the_limit_is_for_all_folds_together_and_custom_ops_come_first() -> None:
    b = ModelBuilder()
    made = []
    for index in range(3):
        small = b.constant(f"small{index}", np.zeros(100, np.float16))
        made.append(b.op("DEQUANTIZE", [small], [(f"w{index}", "float32", (100,))]))
    x = b.input("x", "float32", (100,))
    y = b.op("ADD_N", [x, made[0], made[2]], [("y", "float32", (100,))])
    b.output(b.custom("Mine", [y, made[1]], [("z", "float32", (100,))]))
    graph = graph_of(b.build(), fold_limit=300)  # each fold adds 400 bytes and frees 200
    assert FoldDequantize().find_and_replace_pattern(graph) == 1
    mine = graph.get_op_nodes(op="Mine")[0].in_port(1).get_source()
    assert mine is not None and mine.node.is_const


def test_a_result_of_the_model_stays_what_an_op_writes() -> None:
    b = ModelBuilder()
    b.input("x", "float32", (1,))
    b.output(b.op("ABS", [b.constant("c", np.array([-1], np.float32))], [("y", "float32", (1,))]))
    graph = graph_of(b.build())
    assert FoldConstants().find_and_replace_pattern(graph) == 0
    assert names(graph) == ["ABS"]


def test_sparse_constants_stay() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    dimensions = [
        Table.make("DimensionMetadata", format=0, dense_size=2),
        Table.make("DimensionMetadata", format=0, dense_size=4),
    ]
    sparsity = Table.make(
        "SparsityParameters", traversal_order=[0, 1], block_map=[], dim_metadata=dimensions
    )
    w = b.constant("w", np.zeros(8, np.float32).tobytes(), "float32", (2, 4), sparsity=sparsity)
    full = b.op("DENSIFY", [w], [("full", "float32", (2, 4))])
    b.output(b.op("FULLY_CONNECTED", [x, full, None], [("y", "float32", (1, 2))]))
    assert FoldConstants().find_and_replace_pattern(graph_of(b.build())) == 0


def test_ops_with_a_will_of_their_own_stay() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    shape = b.constant("shape", np.array([4], np.int32))
    noise = b.op("RANDOM_UNIFORM", [shape], [("noise", "float32", (4,))], seed=1)
    mine = b.custom("Mine", [shape], [("mine", "float32", (4,))])
    b.output(b.op("ADD_N", [x, noise, mine], [("y", "float32", (4,))]))
    assert FoldConstants().find_and_replace_pattern(graph_of(b.build())) == 0


def shape_computation(signature: tuple[int, int] | None) -> Model:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3), shape_signature=signature)
    shape = b.op("SHAPE", [x], [("shape", "int32", (2,))], out_type=2)
    twice = b.op("MUL", [shape, b.constant("one", np.int32(1))], [("twice", "int32", (2,))])
    b.output(b.op("RESHAPE", [x, twice], [("y", "float32", (2, 3))]))
    return b.build()


def test_what_comes_of_a_shape_is_folded_only_where_shapes_are_final() -> None:
    for signature in (None, (-1, 3)):
        assert FoldConstants().find_and_replace_pattern(graph_of(shape_computation(signature))) == 0
    model = shape_computation((-1, 3))
    graph = static_graph_of(model)
    assert FoldConstants().find_and_replace_pattern(graph) == 2
    assert names(graph) == ["RESHAPE"]
    assert values(graph, "RESHAPE", 1).tolist() == [2, 3]


def test_an_op_that_stock_cannot_run_stays_and_others_are_folded() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    bad = b.constant("bad", np.array([7], np.int32))  # out of range
    one = b.constant("one", np.array([1, 2], np.float32))
    lost = b.op("GATHER", [one, bad], [("lost", "float32", (1,))], axis=0)
    good = b.op("NEG", [one], [("good", "float32", (2,))])
    b.output(
        b.op("ADD_N", [x, good], [("y", "float32", (2,))]),
        b.op("ABS", [lost], [("z", "float32", (1,))]),
    )
    graph = graph_of(b.build())
    assert FoldConstants().find_and_replace_pattern(graph) == 1
    assert "NEG" not in names(graph) and "GATHER" in names(graph)


UNARY = [
    "ABS",
    "CEIL",
    "COS",
    "ELU",
    "EXP",
    "FLOOR",
    "LOGISTIC",
    "NEG",
    "RELU",
    "RSQRT",
    "SIN",
    "SQUARE",
    "TANH",
]
BINARY = ["ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB"]


@st.composite
def constant_models(draw: st.DrawFn) -> Model:
    """Draws a model of a few ops; some of them depend only on constants."""
    b = ModelBuilder()
    elements = st.floats(-4, 4, width=32)
    known: list[Tensor] = [
        b.constant(f"c{i}", np.array(draw(st.lists(elements, min_size=3, max_size=3)), np.float32))
        for i in range(2)
    ]
    known.append(b.input("x", "float32", (3,)))
    for index in range(draw(st.integers(1, 10))):
        arity = draw(st.integers(1, 2))
        name = draw(st.sampled_from(UNARY if arity == 1 else BINARY))
        inputs = [draw(st.sampled_from(known)) for _ in range(arity)]
        known.append(b.op(name, inputs, [(f"t{index}", "float32", (3,))]))
    b.output(b.op("ADD_N", known, [("y", "float32", (3,))]))
    return b.build()


@given(model=constant_models())
@settings(max_examples=40)
def test_a_folded_model_computes_the_same_bits(model: Model) -> None:
    expected = run(model)
    graph = graph_of(model)
    FoldConstants().find_and_replace_pattern(graph)
    graph.infer()
    graph.topological_sort()
    assert all(
        op.name == "ADD_N" or any(t is not None and not t.is_constant for t in op.inputs)
        for op in model.subgraphs[0].ops
    )
    assert all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(run(model), expected, strict=True)
    )


def test_selfie_segmentation_computes_the_same_bits_without_dequantize(networks: Path) -> None:
    with read_model(networks / "selfie_segmentation.tflite") as model:
        expected = run(model, xnnpack=True)
        graph = graph_of(model)
        assert FoldDequantize().find_and_replace_pattern(graph) == 110
        graph.infer()
        graph.topological_sort()
        assert graph.fold_limit > MIB - 220_000
        assert "DEQUANTIZE" not in names(graph)
        assert all(map(np.array_equal, run(model, xnnpack=True), expected))


def before_custom_op(graph: Graph) -> Model:
    """Cuts the model off before its custom op, whose inputs become the results; this part stays on the CPU."""
    model, subgraph = graph.model, graph.subgraph
    custom = next(op for op in subgraph.ops if op.is_custom)
    end = subgraph.ops.index(custom)
    for op in subgraph.ops[end:]:
        op.release()
    subgraph.ops = subgraph.ops[:end]
    subgraph.outputs = [t for t in custom.inputs if t is not None and t.producer is not None]
    return model


def test_a_part_before_a_custom_op_runs_in_xnnpack_once_weights_are_folded(networks: Path) -> None:
    with read_model(networks / "selfie_segmentation.tflite") as model:
        part = before_custom_op(graph_of(model))
        assert [t.producer.name for t in part.subgraphs[0].outputs if t.producer][1:] == [
            "DEQUANTIZE"
        ] * 2
        with pytest.raises(RuntimeError):
            run(part, xnnpack=True)
        expected = run(part)[0]
    with read_model(networks / "selfie_segmentation.tflite") as model:
        graph = graph_of(model)
        FoldDequantize().find_and_replace_pattern(graph)
        graph.infer()
        graph.topological_sort()
        (found,) = run(before_custom_op(graph), xnnpack=True)
        assert np.allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_a_slice_of_nothing_is_folded() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4, 3))
    table = b.constant("table", np.ones((4, 3), np.float32))
    ends = [np.array(v, np.int32) for v in ([0, 3], [4, 3], [1, 1])]
    parts = [b.constant(f"ends{i}", value) for i, value in enumerate(ends)]
    nothing = b.op("STRIDED_SLICE", [table, *parts], [("nothing", "float32", (4, 0))])
    b.output(b.op("CONCATENATION", [x, nothing], [("y", "float32", (4, 3))], axis=1))
    model = b.build()
    wanted = run(model)
    graph = graph_of(model)
    assert FoldConstants().find_and_replace_pattern(graph) == 1
    graph.clean_up()
    assert names(graph) == ["CONCATENATION"]
    np.testing.assert_array_equal(run(model), wanted)
