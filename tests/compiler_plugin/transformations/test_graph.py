"""Tests nodes, ports and connections over a model: what they show, and what an edit changes and what not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.inferred_graph import InferredGraph
from compiler_plugin.transformations.matcher import find_match
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.pattern import Match
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.positions import (
    CONTROL_DEPENDENCIES_KEY,
    set_control_dependencies,
)


def build_chain() -> Model:
    """Builds x -> CONV_2D -> RELU -> ADD -> y; ADD also reads `conv`, and `relu` is a second result."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 4, 2))
    w = b.constant("w", np.ones((3, 1, 1, 2), np.float32))
    conv = b.op(
        "CONV_2D", [x, w, None], [("conv", "float32", (1, 4, 4, 3))],
        padding="SAME", stride_w=1, stride_h=1,
    )  # fmt: skip
    relu = b.op("RELU", [conv], [("relu", "float32", (1, 4, 4, 3))])
    y = b.op("ADD", [relu, conv], [("y", "float32", (1, 4, 4, 3))])
    b.output(y, relu)
    b.signature("serve", {"image": x}, {"sum": y, "positive": relu})
    return b.build()


@pytest.fixture
def graph() -> Graph:
    model = build_chain()
    return Graph(model, model.subgraphs[0])


def names(nodes: object) -> list[str]:
    return [node.name for node in nodes]  # type: ignore[attr-defined]


def test_ops_are_nodes_in_execution_order_and_ends_are_nodes_beside_them(graph: Graph) -> None:
    assert names(graph.nodes) == ["conv", "relu", "y"]
    assert [(n.op, n.name) for n in graph.parameters] == [("Parameter", "x")]
    assert [(n.op, n.name) for n in graph.constants()] == [("Const", "w")]
    assert [(n.op, n.name) for n in graph.results] == [("Result", "y"), ("Result", "relu")]


def test_ends_are_found_by_what_they_are(graph: Graph) -> None:
    assert graph.get_op_nodes(op="Parameter") == graph.parameters
    assert graph.get_op_nodes(op="Result") == graph.results
    assert graph.get_op_nodes(op="Const", name="w") == graph.constants()
    assert graph.get_op_nodes(op="Variable") == []
    assert graph.get_nodes_with_attributes(op="Const") == graph.constants()
    assert names(graph.get_nodes_with_attributes(name="y")) == ["y", "y"]
    assert names(graph.get_op_nodes(name="y")) == ["y"]


def test_a_node_is_the_same_object_each_time_it_is_asked_for(graph: Graph) -> None:
    conv = graph.get_op_nodes(op="CONV_2D")[0]
    relu = graph.get_op_nodes(op="RELU")[0]
    source = relu.in_port(0).get_source()
    assert source is not None and source.node is conv
    assert len({node.id for node in graph.get_nodes_with_attributes()}) == 7


def test_ports_lead_from_a_producer_to_its_readers_and_back(graph: Graph) -> None:
    relu = graph.get_op_nodes(op="RELU")[0]
    readers = relu.out_port(0).get_destinations()
    assert [(p.node.op, p.index) for p in readers] == [("ADD", 0), ("Result", 0)]
    conv = graph.get_op_nodes(op="CONV_2D")[0]
    assert [str(p.get_source() and p.get_source().node.op) for p in conv.in_ports().values()] == [  # type: ignore[union-attr]
        "Parameter", "Const", "None",
    ]  # fmt: skip
    assert not conv.is_in_port_connected(2) and conv.is_in_port_connected(1)


def test_options_are_attributes_with_enums_by_name(graph: Graph) -> None:
    conv = graph.get_op_nodes(op="CONV_2D")[0]
    assert (conv.padding, conv["stride_w"], conv.soft_get("fused_activation_function")) == (
        "SAME", 1, "NONE",
    )  # fmt: skip
    assert conv.soft_get("axis", 7) == 7 and not conv.has("axis")


def test_setting_an_option_changes_the_op_at_once_and_a_wrong_value_changes_nothing(
    graph: Graph,
) -> None:
    conv = graph.get_op_nodes(op="CONV_2D")[0]
    conv.fused_activation_function = "RELU6"
    assert conv.model_op is not None and conv.model_op.options is not None
    assert conv.model_op.options.get("fused_activation_function") == 3
    with pytest.raises(LiteRtError, match="padding cannot be 'SAMEE'"):
        conv.padding = "SAMEE"
    assert conv.padding == "SAME"


def test_free_attributes_live_with_the_graph_and_touch_nothing(graph: Graph) -> None:
    conv = graph.get_op_nodes(op="CONV_2D")[0]
    conv.visited = True
    assert conv.visited is True and conv.has_valid("visited") and not graph.touched
    with pytest.raises(AttributeError, match=r"no attribute 'axis'.*padding"):
        conv.axis  # noqa: B018


def test_an_op_that_replaces_another_keeps_its_name_quantization_and_readers() -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", (1, 4), quantization=Quantization((0.5,), (3,)))
    y = b.tensor("y", "int8", (1, 4), quantization=Quantization((0.25,), (0,)))
    b.op("LOGISTIC", [x], [y])
    b.output(y)
    model = b.build()
    graph = Graph(model, model.subgraphs[0])
    old = graph.nodes[0]
    new = graph.create_op("TANH", [graph.parameters[0]])
    graph.replace_node(old, new)
    graph.topological_sort()
    assert [op.name for op in model.subgraphs[0].ops] == ["TANH"]
    (output,) = model.subgraphs[0].outputs
    assert output.name == "y" and output.quantization == Quantization((0.25,), (0,))
    assert not old.is_alive
    with pytest.raises(LiteRtError, match="was removed"):
        old.in_port(0).disconnect()


def test_a_result_keeps_its_name_when_its_source_is_replaced(graph: Graph) -> None:
    relu = graph.get_op_nodes(op="RELU")[0]
    relu6 = graph.create_op("RELU6", [relu.in_port(0).get_source()], name="six")
    relu.out_port(0).get_connection().set_source(relu6.out_port(0))
    assert names(graph.results) == ["y", "relu"]
    assert [t.name for t in graph.subgraph.outputs] == ["y", "relu"]
    assert relu6.name == "relu" and relu.name == "relu/replaced"
    signature = graph.model.signatures[0]
    assert [(name, t.producer and t.producer.name) for name, t in signature.outputs] == [
        ("sum", "ADD"), ("positive", "RELU6"),
    ]  # fmt: skip
    assert graph.clean_up() == 1 and names(graph.nodes) == ["conv", "y", "relu"]


def test_a_node_is_inserted_before_all_readers(graph: Graph) -> None:
    conv = graph.get_op_nodes(op="CONV_2D")[0]
    neg = graph.create_op("NEG", [None])
    conv.out_port(0).get_connection().insert_node(neg)
    assert [p.node.op for p in conv.out_port(0).get_destinations()] == ["NEG"]
    assert [p.node.op for p in neg.out_port(0).get_destinations()] == ["RELU", "ADD"]
    graph.topological_sort()
    assert [node.op for node in graph.nodes] == ["CONV_2D", "NEG", "RELU", "ADD"]


def test_a_node_that_reads_the_source_already_is_inserted_all_the_same(graph: Graph) -> None:
    conv = graph.nodes[0]
    readers = conv.out_port(0).get_destinations()
    double = graph.create_op("MUL", [conv, conv])
    connection = conv.out_port(0).get_connection()
    connection.insert_node(double)
    assert connection.get_destinations() == double.out_port(0).get_destinations() == readers
    assert [port.get_source() for port in double.in_ports().values()] == [conv.out_port(0)] * 2


def test_a_cycle_is_reported_with_its_members(graph: Graph) -> None:
    conv, add = graph.get_op_nodes(op="CONV_2D")[0], graph.get_op_nodes(op="ADD")[0]
    conv.in_port(0).connect(add.out_port(0))
    with pytest.raises(LiteRtError, match=r"form a cycle.*conv"):
        graph.topological_sort()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda g: g.nodes[0].in_port(0).connect(g.nodes[0].out_port(0)), "its own output"),
        (lambda g: g.nodes[0].in_port(5), "no input port 5"),
        (lambda g: g.nodes[0].out_port(-1), "no output port -1"),
        (lambda g: g.results[0].in_port(0).disconnect(), "must have a source"),
        (lambda g: g.nodes[2].out_port(0).disconnect(), "must have a source"),
        (lambda g: g.remove_node(g.nodes[0]), "cannot be removed, because RELU"),
        (lambda g: g.remove_node(g.parameters[0]), "Parameter 'x' cannot be removed"),
        (lambda g: g.remove_node("relu_6"), "no node with the id or name 'relu_6'"),
        (lambda g: g.nodes[0].in_port(9), "Add a port with add_input_port.*in_ports_count"),
        (lambda g: g.create_op("RELUU", [g.parameters[0]]), "no operator 'RELUU'"),
        (lambda g: g.create_op("RELU", [g.parameters[0]], {"beta": 1.0}), "beta"),
        (lambda g: g.create_const([1.5], element_type="int8"), "do not fit the type INT8"),
        (lambda g: g.parameters[0].out_port(0).data.set_shape((1, -2)), r"cannot be \(1, -2\)"),
        (lambda g: g.constants()[0].out_port(0).data.set_shape((1, 2)), "Set the value instead"),
        (
            lambda g: g.replace_node(g.nodes[1], g.create_op("RELU", [g.nodes[1]])),
            "because the new op reads a result of the old op",
        ),
        (lambda g: g.nodes[0].in_port(0).connect(other_port()), "belongs to another subgraph"),
        (
            lambda g: g.nodes[0].in_port(0).connect(g.nodes[1]),
            r"RELU 'relu' is not an output port.*out_port",
        ),
        (lambda g: g.nodes[0].in_port(0).connect(g.nodes[1].in_port(0)), "get_source"),
        (
            lambda g: g.nodes[0].out_port(0).connect(g.nodes[2].out_port(0)),
            "must be an input port, but is ",
        ),
        (
            lambda g: g.nodes[0].out_port(0).get_connection().add_destination(g.nodes[2]),
            "must be an input port, but is ",
        ),
        (lambda g: g.create_op("RELU", g.parameters[0]), r"must be a list, but.*\[x\]"),
        (lambda g: g.create_op("RELU", [g.nodes[0].in_port(0)]), "get_source"),
        (lambda g: g.create_op("MyRelu", [g.parameters[0]]), "is_custom=True"),
        (lambda g: g.create_op("RELU", np.zeros(3, np.float32)), "must be a list, but"),
        (lambda g: g.replace_node("relu", g.nodes[0]), "find_node"),
        (lambda g: g.nodes[0].in_port("x"), "no input port 'x'"),
        (
            lambda g: setattr(g.nodes[0], "name", 5),
            "the name of a tensor must be a string, but is 5",
        ),
        (
            lambda g: setattr(g.results[0], "name", 5),
            "the name of a tensor must be a string, but is 5",
        ),
        (
            lambda g: setattr(g.nodes[0], "version", "opset1"),
            "the version of CONV_2D 'conv' cannot be 'opset1'",
        ),
        (
            lambda g: g.nodes[0].add_output_port(name=5),
            "the name of a tensor must be a string, but is 5",
        ),
        (lambda g: g.create_const(1, name=5), "the name of a tensor must be a string, but is 5"),
        (
            lambda g: g.create_const([[1], [1, 2]]),
            'cannot make a constant from the value: "setting .* shape',
        ),
        (
            lambda g: g.create_op("RELU", [1.0], name=5),
            "the name of a tensor must be a string, but is 5",
        ),
        (
            lambda g: g.create_op("RELU", [1.0], outputs="2"),
            "the number of outputs of RELU cannot be '2'",
        ),
        (lambda g: g.create_op("RELU", [1.0], version=0), "the version of RELU cannot be 0"),
        (
            lambda g: g.create_op("RELU", [1.0], ["axis"]),
            "the attributes of RELU must be a dict, but are",
        ),
        (lambda g: g.nodes[0].out_port(0).data.set_shape((1, 2.5)), r"cannot be \(1, 2.5\)"),
        (lambda g: g.nodes[0].out_port(0).data.set_value(3), "create_const"),
        (lambda g: setattr(g.nodes[0], "op", "RELU"), "replace_node"),
        (lambda g: setattr(g.nodes[0], "id", "7"), "'id' of .* cannot be set"),
        (lambda g: setattr(g.nodes[0], "fused_activation", "RELU"), "'fused_activation_function'"),
        (
            lambda g: g.nodes[0].in_port(0).get_connection().insert_node(g.constants()[0]),
            "no input",
        ),
    ],
)
def test_an_edit_that_cannot_be_right_changes_nothing(
    graph: Graph, edit: object, message: str
) -> None:
    before = [(node.op, node.input_tensors[:], node.output_tensors[:]) for node in graph.nodes]
    with pytest.raises(LiteRtError, match=message):
        edit(graph)  # type: ignore[operator]
    after = [(node.op, node.input_tensors[:], node.output_tensors[:]) for node in graph.nodes[:3]]
    assert before == after


def other_port() -> object:
    model = build_chain()
    return Graph(model, model.subgraphs[0]).nodes[0].out_port(0)


def test_a_constant_that_shares_its_buffer_gets_one_of_its_own_with_new_data() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    one = b.constant("one", np.array([1, 2], np.float32))
    two = b.constant("two", one.buffer, "float32", (2,))
    b.output(
        b.op(
            "ADD", [b.op("ADD", [x, one], [("a", "float32", (2,))]), two], [("y", "float32", (2,))]
        )
    )
    model = b.build()
    graph = Graph(model, model.subgraphs[0])
    first, second = graph.constants()
    first.out_port(0).data.set_value([5, 6])
    for constant, values in ((first, [5, 6]), (second, [1, 2])):
        found = constant.out_port(0).data.get_value()
        assert found is not None and np.array_equal(found, values)


def test_shapes_are_known_of_inputs_and_constants_alone_in_the_front_phase() -> None:
    model = build_chain()
    graph = Graph(model, model.subgraphs[0], stage=Phase.FRONT)
    conv = graph.nodes[0]
    assert conv.in_port(0).data.get_shape() == (1, 4, 4, 2)
    assert conv.in_port(1).data.get_shape() == (3, 1, 1, 2)
    assert conv.out_port(0).data.get_shape() is None
    graph.stage = Phase.MIDDLE
    assert conv.out_port(0).data.get_shape() == (1, 4, 4, 3)


def test_unknown_dimensions_are_minus_one_and_the_start_shape_has_a_size(graph: Graph) -> None:
    graph.parameters[0].out_port(0).data.set_shape((-1, 4, 4, 2))
    (x,) = graph.subgraph.inputs
    assert (x.shape, x.shape_signature) == ((1, 4, 4, 2), (-1, 4, 4, 2))
    assert [node.op for node in graph.touched] == ["CONV_2D"]


def test_lists_and_arrays_are_found_by_their_elements(graph: Graph) -> None:
    conv, relu, _ = graph.nodes
    conv.table, relu.table = np.array([1, 2]), (1, 3)
    for wanted in ([1, 2], (1, 2), np.array([1, 2])):
        assert graph.get_op_nodes(table=wanted) == [conv]
    assert find_match(Match("CONV_2D", table=[1, 2]), conv)
    assert not find_match(Match("RELU", table=[1, 2]), relu)


def test_the_options_of_a_custom_op_are_attributes_by_their_flexbuffer_keys() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    b.output(b.custom("Scale", [x], [("y", "float32", (2,))], options={"factor": 2.5, "axis": 1}))
    model = b.build()
    node = Graph(model, model.subgraphs[0]).nodes[0]
    assert (node.op, node.factor, node.axis, node.is_changed) == ("Scale", 2.5, 1, False)
    node.factor = 3.5
    assert node.is_changed and node.custom_attributes() == {"factor": 3.5, "axis": 1}


def test_ports_are_added_and_taken_away(graph: Graph) -> None:
    node = graph.create_op("CONCATENATION", [graph.parameters[0]], {"axis": 3})
    port = node.add_input_port(graph.parameters[0].out_port(0))
    assert port.index == 1 and len(node.in_ports()) == 2
    node.delete_input_port(0)
    assert len(node.in_ports()) == 1 and node.model_op is not None
    assert node.model_op.inputs[0] is graph.subgraph.inputs[0]
    extra = node.add_output_port(ElementType.INT32, "extra")
    assert (extra.index, extra.name, extra.get_data_type()) == (1, "extra", ElementType.INT32)


def test_a_replaced_custom_op_keeps_its_place_among_others() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    for name in "ABCD":
        x = b.custom(name, [x], [(name.lower(), "float32", (4,))])
    b.output(x)
    model = b.build()
    graph = Graph(model, model.subgraphs[0])
    old = graph.get_op_nodes(op="B")[0]
    source = old.in_port(0).get_source()
    first = graph.create_op("B1", [source], is_custom=True)
    graph.replace_node(old, graph.create_op("B2", [first], is_custom=True))
    graph.topological_sort()
    assert [op.name for op in model.subgraphs[0].ops] == ["A", "B1", "B2", "C", "D"]


def test_ops_that_were_connected_against_their_order_change_places() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    a, c = (b.op("ABS", [x], [(name, "float32", (4,))]) for name in "ac")
    b.output(a, c)
    model = b.build()
    graph = Graph(model, model.subgraphs[0])
    first, second = graph.nodes
    first.in_port(0).connect(second.out_port(0))
    graph.topological_sort()
    assert [op.outputs[0].name for op in model.subgraphs[0].ops] == ["c", "a"]


def test_touched_ops_are_in_order_without_a_sort_of_the_whole() -> None:
    class Inference:
        def infer(self, graph: InferredGraph, nodes: Sequence[Node]) -> None:
            seen.append([node.op for node in nodes])

        def find_value(self, graph: InferredGraph, port: OutPort) -> None:
            return None

    seen: list[list[str]] = []
    model = build_chain()
    graph = Graph(model, model.subgraphs[0], Inference())
    before = list(model.subgraphs[0].ops)
    conv, relu, _ = graph.nodes
    exp = graph.create_op("EXP", [None])
    conv.out_port(0).get_connection().insert_node(exp)
    sin = graph.create_op("SIN", [exp])
    graph.replace_node(relu, sin)
    assert sin.out_port(0).data.get_shape() == (1, 4, 4, 3)
    assert seen == [["EXP", "SIN", "ADD"]]
    assert model.subgraphs[0].ops == before
    conv.in_port(0).connect(exp.out_port(0))
    with pytest.raises(LiteRtError, match="form a cycle"):
        sin.out_port(0).data.get_shape()


def test_an_op_that_cannot_be_made_leaves_no_constants_behind(graph: Graph) -> None:
    before = list(graph.subgraph.tensors), list(graph.model.buffers)
    one, other = np.ones(4, np.float32), cast(OutPort, other_port())
    with pytest.raises(LiteRtError, match="belongs to another graph, or was removed"):
        graph.create_op("ADD", [one, other])
    with pytest.raises(LiteRtError, match="no_option"):
        graph.create_op("ADD", [one, one], {"no_option": 1})
    with pytest.raises(LiteRtError, match="ADDD"):
        graph.create_op("ADDD", [one, one])
    assert (graph.subgraph.tensors, graph.model.buffers) == before


def test_metadata_that_wait_for_later_ops_are_no_cycle() -> None:
    model = build_chain()
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(b""))
    set_control_dependencies(model, [[(2, 0), (1, 1), (0, 2)]])
    graph = Graph(model, model.subgraphs[0])
    assert [(a.name, b.name) for a, b in graph.control_edges] == [("CONV_2D", "ADD")]


def test_an_op_that_takes_in_one_behind_it_stays_where_it_is() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    added = b.op("ADD", [x, x], [("added", "float32", (4,))])
    other = b.op("EXP", [x], [("other", "float32", (4,))])
    b.output(b.op("RELU", [added], [("relu", "float32", (4,))]), other)
    model = b.build()
    graph = Graph(model, model.subgraphs[0])
    add, _, relu = graph.nodes
    add.fused_activation_function = "RELU"
    graph.replace_node(relu, add)
    graph.topological_sort()
    assert names(graph.nodes) == ["relu", "other"]


def test_options_that_no_kernel_takes_by_default_have_what_is_usual(graph: Graph) -> None:
    x = graph.parameters[0]
    assert graph.create_op("SHAPE", [x]).out_type == "INT32"
    assert graph.create_op("ARG_MAX", [x, 3], {"output_type": "INT64"}).output_type == "INT64"
    assert graph.create_op("MAX_POOL_2D", [x]).stride_w == 1
    assert graph.create_op("MAX_POOL_2D", [x], {"stride_w": 2}).stride_w == 2


def test_a_port_or_node_that_went_is_refused(graph: Graph) -> None:
    node = graph.create_op("CONCATENATION", [graph.parameters[0]] * 2, {"axis": 3})
    port, result = node.in_port(1), node.out_port(0)
    node.delete_input_port(1)
    with pytest.raises(LiteRtError, match="no input port 1"):
        port.connect(graph.parameters[0].out_port(0))
    with pytest.raises(LiteRtError, match="no input port 1"):
        port.disconnect()
    graph.remove_node(node)
    for where, name in ((node, "axis"), (node, "visited"), (result, "quantization")):
        with pytest.raises(LiteRtError, match="was removed"):
            setattr(where, name, None)
    assert node not in graph.touched


def test_a_builtin_op_has_as_many_outputs_as_its_kind(graph: Graph) -> None:
    x = graph.parameters[0]
    assert len(graph.create_op("SPLIT", [0, x], {"num_splits": 3}).out_ports()) == 3
    assert len(graph.create_op("TOPK_V2", [x, 1]).out_ports()) == 2
    assert len(graph.create_op("TOPK_V2", [x, 1], outputs=1).out_ports()) == 1
    assert len(graph.create_op("Mine", [x], is_custom=True).out_ports()) == 1


@pytest.mark.parametrize(
    ("name", "here"), [("in_edge", r"in_port\(i\)"), ("shape", "get_shape"), ("pb", "model_op")]
)
def test_what_the_model_optimizer_calls_otherwise_has_its_name_told(
    graph: Graph, name: str, here: str
) -> None:
    with pytest.raises(AttributeError, match=here):
        getattr(graph.nodes[0], name)


def test_graphs_and_data_say_what_they_are_and_nodes_are_no_lists(graph: Graph) -> None:
    conv = graph.nodes[0]
    assert repr(graph) == f"Graph('{graph.subgraph.name}', 3 ops, middle)"
    assert repr(conv.in_port(0).data) == "PortData(output 0 of Parameter 'x')"
    with pytest.raises(TypeError, match="not iterable"):
        list(conv)  # type: ignore[call-overload]
