"""Tests users' op classes, the nodes that they create, and the inference of those nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from compiler_plugin.transformations import Graph, Node, Op, OpLibrary, Phase
from compiler_plugin.transformations.graph_check import check_graph
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder


class Softmax(Op):
    # the name of the op
    op = "SoftMax"
    enabled = False

    def __init__(self, graph: Graph, attrs: dict[str, Any]) -> None:
        super().__init__(
            graph,
            {
                "type": __class__.op,  # type: ignore[name-defined]
                "op": __class__.op,  # type: ignore[name-defined]
                "version": 1,
                "infer": Softmax.infer,
                "axis": 1,
                "in_ports_count": 1,
                "out_ports_count": 1,
            },
            attrs,
        )

    def supported_attrs(self) -> list[str]:
        return ["axis"]

    @staticmethod
    def infer(node: Node) -> None:
        """Sets the output's shape to the input's."""
        node.out_port(0).data.set_shape(node.in_port(0).data.get_shape() or ())


class Reshape(Op):
    op = "Reshape"

    def __init__(self, graph: Graph, attrs: dict[str, Any]) -> None:
        defaults = {"infer": Reshape.infer, "in_ports_count": 2, "out_ports_count": 1}
        super().__init__(graph, defaults, attrs)

    @staticmethod
    def infer(node: Node) -> None:
        input_shape = node.in_port(0).data.get_shape()  # get the input tensor shape
        new_shape = node.in_port(1).data.get_value()  # may contain the special values 0 and -1
        assert input_shape is not None and new_shape is not None
        sizes = [int(input_shape[i]) if s == 0 else int(s) for i, s in enumerate(new_shape)]
        if -1 in sizes and -1 not in input_shape:
            sizes[sizes.index(-1)] = int(np.prod(input_shape)) // -int(np.prod(sizes))
        value = node.in_port(0).data.get_value()
        if value is not None:  # setting a value also sets the shape
            node.out_port(0).data.set_value(value.reshape(sizes))
        else:
            node.out_port(0).data.set_shape(sizes)


def make_graph(
    stage: Phase = Phase.MIDDLE, ops: OpLibrary | None = None, batch: int = 2
) -> tuple[Graph, Node]:
    """Builds a graph of one op, RELU, with an input of shape [batch, 6]."""
    b = ModelBuilder()
    x = b.input("x", "float32", (max(batch, 1), 6), shape_signature=(batch, 6))
    b.output(b.op("RELU", [x], [("y", "float32", (max(batch, 1), 6))]))
    model = b.build()
    subgraph = model.subgraphs[0]
    graph = Graph(model, subgraph, PartialInference(subgraph), ops=ops, stage=stage)
    return graph, graph.parameters[0]


def test_a_node_gets_the_attributes_of_its_op() -> None:
    graph, x = make_graph()
    op = Softmax(graph, {"axis": -1, "name": "probabilities"})
    node = op.create_node([x])
    assert (node.op, node.type, node.version, node.name) == (
        "SoftMax", "SoftMax", 1, "probabilities",
    )  # fmt: skip
    assert node.axis == -1 and node.attributes() == {"axis": -1}
    assert op.create_node([x], {"axis": 0}).axis == 0 and node.axis == -1
    assert len(node.in_ports()) == len(node.out_ports()) == 1
    assert node.in_port(0).get_source() == x.out_port(0)


def test_shapes_and_types_of_a_new_node_are_inferred() -> None:
    graph, x = make_graph(batch=-1)
    node = Softmax(graph, {}).create_node_with_data([x])
    assert not graph.touched
    assert node.out_port(0).data.get_shape() == (-1, 6)
    assert node.out_port(0).get_data_type() is ElementType.FLOAT32


def test_an_infer_can_find_values() -> None:
    graph, x = make_graph()
    shape = graph.create_const(np.array([3, -1], np.int32))
    node = Reshape(graph, {}).create_node([x, shape])
    assert node.out_port(0).data.get_shape() == (3, 4)
    assert node.out_port(0).data.get_value() is None
    constant = graph.create_const(np.arange(12, dtype=np.float32).reshape(2, 6))
    node.in_port(0).connect(constant.out_port(0))
    value = node.out_port(0).data.get_value()
    assert value is not None and value.tolist() == np.arange(12).reshape(3, 4).tolist()
    node.in_port(0).connect(x.out_port(0))
    assert node.out_port(0).data.get_value() is None


def test_an_op_without_a_class_can_have_functions_as_attributes() -> None:
    graph, x = make_graph()
    node = graph.create_op("Unknown", [x], is_custom=True)
    node.data_type = "int16"
    node.infer = lambda n: n.out_port(0).data.set_shape([3])
    assert node.out_port(0).data.get_shape() == (3,)
    assert node.out_port(0).get_data_type() is ElementType.INT16
    node.infer = lambda n: n.out_port(0).data.set_shape([4])
    assert node.out_port(0).data.get_shape() == (4,)


def test_values_that_an_infer_finds_are_of_the_output_s_type() -> None:
    def half(node: Node) -> None:
        node.out_port(0).data.set_value(np.array([0.5, 1.5]))  # float64

    graph, x = make_graph()
    node = Softmax(graph, {"infer": half}).create_node([x])
    value = node.out_port(0).data.get_value()
    assert value is not None and value.dtype == np.float32 and value.tolist() == [0.5, 1.5]
    wrong = Softmax(graph, {"infer": half, "data_type": "int32"}).create_node([x])
    with pytest.raises(LiteRtError, match="some elements of the array do not fit the type INT32"):
        wrong.out_port(0).data.get_value()


def test_what_reads_a_user_op_is_inferred_behind_it() -> None:
    graph, x = make_graph()
    shape = graph.create_const(np.array([0, 2, 3], np.int32))
    relu = graph.get_op_nodes(op="RELU")[0]
    reshape = Reshape(graph, {}).create_node([x, shape])
    relu.in_port(0).connect(reshape.out_port(0))
    assert relu.out_port(0).data.get_shape() == (2, 2, 3)
    shape.out_port(0).data.set_value(np.array([4, 3], np.int32))
    assert relu.out_port(0).data.get_shape() == (4, 3)


def test_an_attribute_that_is_set_is_inferred_with() -> None:
    class Tiled(Op):
        op = "Tiled"

        @staticmethod
        def infer(node: Node) -> None:
            node.seen = node.soft_get("seen", 0) + 1  # an infer may set attributes
            node.out_port(0).data.set_shape([node.times, 6])

    graph, x = make_graph()
    node = Tiled(graph, {"times": 3}).create_node([x])
    assert node.out_port(0).data.get_shape() == (3, 6)
    node.times = 5
    assert node.out_port(0).data.get_shape() == (5, 6)
    node.times = 5
    node.out_port(0).data.get_shape()
    assert node.seen == 2


@pytest.mark.parametrize(
    ("attrs", "found"),
    [
        ({}, ElementType.FLOAT32),
        ({"data_type": "int8"}, ElementType.INT8),
        ({"data_type": np.int64}, ElementType.INT64),
        ({"type_infer": lambda n: n.out_port(0).set_data_type("bool")}, ElementType.BOOL),
    ],
    ids=["of input 0", "by name", "NumPy's", "a function"],
)
def test_the_type_of_an_output_is_inferred(attrs: dict[str, Any], found: ElementType) -> None:
    graph, x = make_graph()
    node = Softmax(graph, attrs).create_node([x])
    assert node.out_port(0).get_data_type() is found


def test_ports_are_there_to_be_connected_and_can_be_added() -> None:
    graph, x = make_graph()
    node = Reshape(graph, {}).create_node()
    assert [port.get_source() for port in node.in_ports().values()] == [None, None]
    node.in_port(0).connect(x.out_port(0))
    node.add_input_port(x.out_port(0))
    assert [node.is_in_port_connected(i) for i in range(3)] == [True, False, True]
    several = Softmax(graph, {"out_ports_count": 3}).create_node([x])
    assert len(several.out_ports()) == 3


def test_ops_stay_apart_from_nodes() -> None:
    graph, x = make_graph()
    op = Softmax(graph, {"pads": [1, 2]})
    first, second = op.create_node([x]), op.create_node([x])
    first.axis = 7
    assert second.axis == 1 and op.attrs["axis"] == 1
    with pytest.raises(TypeError):  # lists become tuples, so that no change goes unnoticed
        first.pads[0] = 5
    assert first.pads == (1, 2)


@pytest.mark.parametrize(
    ("attrs", "says"),
    [
        ({"version": "opset"}, "'version' of SoftMax cannot be 'opset'"),
        ({"id": 3}, "'id' of SoftMax cannot be 3"),
        ({"name": 3}, "'name' of SoftMax cannot be 3"),
        ({"version": 0}, "'version' of SoftMax cannot be 0"),
        ({"in_ports_count": -1}, "'in_ports_count' of SoftMax cannot be -1"),
        ({"out_ports_count": 1.5}, "'out_ports_count' of SoftMax cannot be 1.5"),
        ({"type": ""}, "'type' of SoftMax cannot be ''"),
        ({"type": 3}, "'type' of SoftMax cannot be 3"),
        ({"op": 3}, "'op' of Softmax cannot be 3"),
    ],
)
def test_attributes_that_no_op_can_have_are_refused(attrs: dict[str, Any], says: str) -> None:
    graph, _ = make_graph()
    with pytest.raises(LiteRtError) as error:
        Softmax(graph, attrs)
    assert says in error.value.what and error.value.hint


def test_more_inputs_than_ports_are_refused() -> None:
    graph, x = make_graph()
    edits = graph.edit_count
    with pytest.raises(
        LiteRtError, match="the call passes 2 inputs, but SoftMax has only 1 input port"
    ):
        Softmax(graph, {}).create_node([x, x])
    assert graph.edit_count == edits


def test_a_single_input_is_no_list_of_inputs() -> None:
    graph, x = make_graph()
    with pytest.raises(LiteRtError, match=r"must be a list, but.*\[x\]"):
        Softmax(graph, {}).create_node(cast(Any, x))


def test_there_are_no_data_in_the_front_phase() -> None:
    graph, x = make_graph(Phase.FRONT)
    with pytest.raises(
        LiteRtError,
        match="create_node_with_data cannot create a node of SoftMax in the front phase",
    ):
        Softmax(graph, {}).create_node_with_data([x])
    assert Softmax(graph, {}).create_node([x]).out_port(0).data.get_shape() is None


def failing(node: Node) -> None:
    raise ValueError("no such axis")


def test_an_infer_that_fails_names_op_and_line() -> None:
    graph, x = make_graph()
    node = Softmax(graph, {"infer": failing, "name": "probabilities"}).create_node([x])
    with pytest.raises(LiteRtError) as error:
        node.out_port(0).data.get_shape()
    assert error.value.status is Status.SHAPE_INFERENCE_FAILED
    assert error.value.what == "ValueError: no such axis"
    line = failing.__code__.co_firstlineno + 1
    assert f"SoftMax.infer of {__file__}:{line}" in error.value.where
    assert "op SoftMax 'probabilities'" in error.value.where


def test_an_infer_that_sets_no_shape_is_an_error() -> None:
    graph, x = make_graph()
    node = Softmax(graph, {"infer": lambda node: None}).create_node([x])
    with pytest.raises(LiteRtError, match="infer has not set the shape of output 0 of SoftMax"):
        node.out_port(0).data.get_shape()


def test_the_shape_of_what_was_there_before_is_not_an_infer_s() -> None:
    graph, x = make_graph()
    relu = graph.get_op_nodes(op="RELU")[0]
    node = Softmax(graph, {"infer": lambda node: None}).create_node([x])
    graph.replace_node(relu, node)  # node gets relu's shape
    with pytest.raises(LiteRtError, match="infer has not set the shape of output 0 of SoftMax"):
        graph.infer()


def test_an_output_that_nobody_reads_needs_no_shape_of_an_infer() -> None:
    def infer(node: Node) -> None:
        node.out_port(0).data.set_shape(node.in_port(0).data.get_shape() or ())

    b = ModelBuilder()
    x = b.input("x", "float32", (2, 6))
    first, _ = b.custom("SoftMax", [x], [("y", "float32", (2, 6)), ("z", "float32", (1,))])
    b.output(first)
    model = b.build()
    graph = Graph(model, model.subgraphs[0], PartialInference(model.subgraphs[0]))
    graph.nodes[0].infer = infer
    graph.nodes[0].touch()
    graph.infer()
    assert graph.nodes[0].out_port(1).data.get_shape() == (1,)


@pytest.mark.parametrize(
    "edit",
    [
        lambda node: node.in_port(0).disconnect(),
        lambda node: node.graph.create_op("TANH", [node]),
        lambda node: node.graph.remove_node(node),
    ],
    ids=["disconnect", "create", "remove"],
)
@pytest.mark.parametrize("batch", [2, -1])
def test_an_infer_cannot_change_the_graph(edit: Callable[[Node], object], batch: int) -> None:
    def infer(node: Node) -> None:
        node.out_port(0).data.set_shape(node.in_port(0).data.get_shape() or ())
        edit(node)

    b = ModelBuilder()
    x = b.input("x", "float32", (2, 6), shape_signature=(batch, 6))
    b.output(b.op("ABS", [x], [b.tensor("y", "float32", (2, 6), shape_signature=(batch, 6))]))
    model = b.build()
    graph = Graph(model, model.subgraphs[0], PartialInference(model.subgraphs[0]))
    node = Softmax(graph, {"infer": infer}).create_node([graph.parameters[0]])
    with pytest.raises(LiteRtError, match="infer must not change the graph") as error:
        graph.infer()
    assert "SoftMax.infer of" in error.value.where
    assert node.is_in_port_connected(0) and len(graph.nodes) == 2


def test_an_op_that_nobody_can_infer_is_found_before_it_is_written() -> None:
    class Silent(Op):
        op = "Silent"

    graph, x = make_graph()
    relu = graph.get_op_nodes(op="RELU")[0]
    first = Silent(graph, {}).create_node([x])
    second = Silent(graph, {}).create_node([first])
    graph.replace_node(relu, second)  # second gets relu's shape
    graph.infer()
    with pytest.raises(
        LiteRtError, match=r"the shape of tensor 'silent', which .* writes, is not known"
    ):
        check_graph(graph)
    first.out_port(0).data.set_shape([2, 6])
    check_graph(graph)


def test_classes_are_found_by_name_while_transformations_run() -> None:
    library = OpLibrary([Softmax, Reshape])
    with pytest.raises(LiteRtError):
        Op.get_op_class_by_name("SoftMax")
    with library.in_use():
        assert Op.get_op_class_by_name("SoftMax") is Softmax
        assert Op.get_op_class_by_name("SOFTMAX") is not Softmax
        with pytest.raises(LiteRtError, match="Did you mean 'SoftMax'"):
            Op.get_op_class_by_name("SoftMacs")
    with pytest.raises(LiteRtError, match="Did you mean 'RESHAPE'"):
        Op.get_op_class_by_name("reshape")


def test_builtin_operators_have_classes_with_the_options_of_the_schema() -> None:
    graph, x = make_graph()
    softmax = Op.get_op_class_by_name("SOFTMAX")(graph, {"beta": 2.0})
    assert softmax.node_attributes() == {"beta": 2.0}
    pool = Op.get_op_class_by_name("MAX_POOL_2D")(graph, {"stride_w": 2, "padding": "VALID"})
    assert pool.node_attributes()["filter_height"] == 0
    assert pool.node_attributes()["fused_activation_function"] == "NONE"
    node = softmax.create_node_with_data([x])
    assert (node.op, node.beta, node.is_custom) == ("SOFTMAX", 2.0, False)
    assert node.out_port(0).data.get_shape() == (2, 6)
    axis = graph.create_const(np.array(1, np.int32))
    split = Op.get_op_class_by_name("SPLIT")(graph, {"num_splits": 3}).create_node([axis, x])
    assert [port.data.get_shape() for port in split.out_ports().values()] == [(2, 2)] * 3
    with pytest.raises(LiteRtError, match="SoftmaxOptions has no field 'betta'"):
        Op.get_op_class_by_name("SOFTMAX")(graph, {"betta": 2.0}).create_node([x])
