"""Tests sub-graphs by scope and by points: which ops belong to them, what replaces them, and which are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement_config import (
    MatchKind,
    PortName,
    ReplacementDescription,
)
from compiler_plugin.transformations.sub_graph_match import SubgraphMatch
from compiler_plugin.transformations.sub_graph_replacement import (
    GeneralReplacement,
    OpForSubgraph,
    SubgraphReplacement,
    assign_descriptions,
)
from compiler_plugin.transformations.sub_graph_search import matching_instances
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Tensor
from tests.compiler_plugin.transformations.sketch import Sketch, run_stock


def scope(*scopes: str, **fields: Any) -> ReplacementDescription:
    return ReplacementDescription("Block", MatchKind.SCOPE, scopes, where="c.json, $[0]", **fields)


def points(
    start: Sequence[str], end: Sequence[str], with_start: bool = True, with_end: bool = True
) -> ReplacementDescription:
    return ReplacementDescription(
        "Block", MatchKind.POINTS, (), start, end, where="c.json, $[0]",
        includes_start_points=with_start, includes_end_points=with_end,
    )  # fmt: skip


def block(s: Sketch, x: Tensor, y: Tensor, name: str) -> Tensor:
    """Adds y + relu(x) * sigmoid(1.5 * x), in a scope."""
    relu = s("RELU", x, name=f"{name}/relu")
    sigmoid = s("LOGISTIC", s("MUL", x, 1.5, name=f"{name}/gate/scale"), name=f"{name}/gate/out")
    return s("ADD", y, s("MUL", relu, sigmoid, name=f"{name}/mul"), name=f"{name}/add")


def build(*names: str) -> Graph:
    """Builds x -> TANH -> a block for each name, with x as second input -> NEG."""
    s = Sketch()
    x = s.input()
    value = s("TANH", x, name="model/stem")
    for name in names:
        value = block(s, value, x, name)
    return s.graph(s("NEG", value, name="model/head"))


def names(nodes: Sequence[Node | OutPort]) -> list[str]:
    return [node.name for node in nodes]


def find_one(graph: Graph, description: ReplacementDescription) -> SubgraphMatch:
    (match,) = matching_instances(graph, description)
    return match


class BlockReplacement(SubgraphReplacement):
    """A block becomes one op."""

    replacement_id = "Block"

    def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> Node:
        return graph.create_op("Block", match.inputs, match.custom_attributes, is_custom=True)


def replace(
    graph: Graph, description: ReplacementDescription, by: SubgraphReplacement | None = None
) -> int:
    replacement = by or BlockReplacement()
    assert not assign_descriptions([replacement], [description])
    return replacement.find_and_replace_pattern(graph)


def ops(graph: Graph) -> list[str]:
    graph.topological_sort()
    return [node.op for node in graph.nodes]


def test_a_scope_has_the_ops_whose_names_begin_with_it_as_a_path() -> None:
    match = find_one(build("model/dec", "model/decoy"), scope("model/dec"))
    assert match.matched_nodes_names() == [
        "model/dec/relu", "model/dec/gate/scale", "model/dec/gate/out", "model/dec/mul",
        "model/dec/add",
    ]  # fmt: skip
    assert match.scope == "model/dec" and match.custom_attributes == {}


def test_what_comes_from_outside_is_an_input_in_execution_order_and_constants_are_not() -> None:
    match = find_one(build("model/dec"), scope("model/dec"))
    assert names(match.inputs) == ["model/stem", "x"] and names(match.outputs) == ["model/dec/add"]
    assert [(n.name, i) for n, i in match.input_nodes(0)] == [
        ("model/dec/relu", 0), ("model/dec/gate/scale", 0),
    ]  # fmt: skip
    node, index = match.single_input_node(1)
    assert (node.name, index) == ("model/dec/add", 0)
    node, index = match.output_node(0)
    assert (node.op, index) == ("ADD", 0)
    assert (match.inputs_count(), match.outputs_count()) == (2, 1)
    with pytest.raises(
        LiteRtError, match=r"single_input_node\(0\) needs a single reader, but 2 ops read input 0"
    ):
        match.single_input_node(0)
    with pytest.raises(
        LiteRtError, match="the sub-graph has no output 1: the only output has index 0"
    ):
        match.output_node(1)
    with pytest.raises(
        LiteRtError, match="the sub-graph has no input -1: the 2 inputs have the indices 0 and 1"
    ):
        match.input_nodes(-1)


@pytest.mark.parametrize("is_shared", [False, True], ids=["own", "shared"])
def test_a_variable_is_an_input_only_where_others_read_it_too(is_shared: bool) -> None:
    s = Sketch()
    state = s.builder.tensor("state", "float32", (1, 2, 2, 4), is_variable=True)
    y = s("Cell", s.input(), state, name="model/cell")
    graph = s.graph(y, s("Cell", state if is_shared else y, name="outside"))
    match = find_one(graph, scope("model"))
    assert names(match.inputs) == (["x", "state"] if is_shared else ["x"])


def test_each_text_that_an_expression_takes_is_a_sub_graph_of_its_own() -> None:
    graph = build("model/layer_0", "model/layer_1", "model/other", "model/layer_10")
    found = list(matching_instances(graph, scope(r".*layer_\d+")))
    assert [match.scope for match in found] == ["model/layer_0", "model/layer_1", "model/layer_10"]
    assert {match.instance for match in found} == {r".*layer_\d+"}
    inner = list(matching_instances(graph, scope("model/layer_0/gate", "model/layer_1/gate")))
    assert [len(match.nodes) for match in inner] == [2, 2]


def test_names_of_merged_ops_count_in_each_part_and_without_the_number_of_an_output() -> None:
    s = Sketch()
    x = s("RELU", s.input(), name="model/a/Relu;model/dec/Add")
    x = s("TANH", x, name="model/dec/Tanh:0")
    graph = s.graph(s("NEG", x, name="model/dec:0"))
    match = find_one(graph, scope("model/dec"))
    assert [node.op for node in match.nodes] == ["RELU", "TANH", "NEG"]
    tanh = match.node_by_pattern("Tanh$")
    assert tanh is not None and tanh.op == "TANH"


def test_a_whole_scope_becomes_one_op_with_the_names_and_types_of_its_outputs() -> None:
    graph = build("model/dec_0", "model/dec_1")
    assert replace(graph, scope("model/dec_.", custom_attributes={"heads": 4})) == 2
    assert ops(graph) == ["TANH", "Block", "Block", "NEG"]
    first, second = graph.get_op_nodes(op="Block")
    assert names([first, second]) == ["model/dec_0/add", "model/dec_1/add"] and first.heads == 4
    assert [str(port.get_source()) for port in second.in_ports().values()] == [
        "output 0 of Block 'model/dec_0/add'", "output 0 of Parameter 'x'",
    ]  # fmt: skip
    assert second.out_port(0).tensor.shape == (1, 2, 2, 4)


def test_a_description_with_an_op_needs_no_class() -> None:
    graph = build("model/dec")
    (made,) = assign_descriptions(
        [], [scope("model/dec", op="Decoder", custom_attributes={"heads": 4, "eps": 0.5})]
    )
    assert isinstance(made, OpForSubgraph) and made.name == "block"
    assert made.find_and_replace_pattern(graph) == 1
    (decoder,) = graph.get_op_nodes(op="Decoder")
    assert decoder.attributes()["heads"] == 4 and decoder.eps == 0.5
    assert ops(graph) == ["TANH", "Decoder", "NEG"]


def test_what_was_found_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert replace(build("model/dec"), scope("model/dec")) == 1
    assert caplog.messages == [
        "block_replacement matches scope 'model/dec' of 5 ops, with inputs 'model/stem', 'x' "
        "and outputs 'model/dec/add'"
    ]


def test_a_class_without_a_method_of_its_own_makes_the_op_of_the_description() -> None:
    class Plain(SubgraphReplacement):
        replacement_id = "Block"

    graph = build("model/dec")
    assert replace(graph, scope("model/dec", op="Decoder"), Plain()) == 1
    with pytest.raises(
        LiteRtError, match="class Plain does not define the function replace_sub_graph"
    ):
        replace(build("model/dec"), scope("model/dec"), Plain())


def test_named_inputs_and_outputs_are_in_the_order_of_the_file() -> None:
    graph = build("model/dec")
    description = scope(
        "model/dec",
        inputs=[
            [PortName("add$", 0)],
            [PortName("relu$", 0), PortName("gate/scale$", 0)],
            [PortName("gate/scale", 1)],
        ],
        outputs=[PortName("add", 0)],
    )
    match = find_one(graph, description)
    assert names(match.inputs) == ["x", "model/stem", "model/dec/gate/scale/c1"]
    assert len(match.input_nodes(1)) == 2
    assert replace(graph, description) == 1
    (block,) = graph.get_op_nodes(op="Block")
    sources = [port.get_source() for port in block.in_ports().values()]
    assert names([source for source in sources if source]) == names(match.inputs)


def two_outputs(s: Sketch) -> tuple[Tensor, Tensor]:
    x = s.input()
    a = s("RELU", x, name="dec/a")
    b = s("TANH", a, name="dec/b")
    return a, b


def test_several_outputs_are_replaced_in_their_order(tmp_path: Path) -> None:
    s = Sketch()
    a, b = two_outputs(s)
    graph = s.graph(s("SUB", s("NEG", a), b), a)
    before = run_stock(graph, tmp_path / "before.tflite")

    class Swapped(SubgraphReplacement):
        replacement_id = "Block"

        def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> list[Node]:
            relu = graph.create_op("RELU", match.inputs)
            tanh = graph.create_op("TANH", [relu])
            return [tanh, relu]

    description = scope("dec", outputs=[PortName("b$", 0), PortName("a$", 0)])
    assert replace(graph, description, Swapped()) == 1
    assert sorted(ops(graph)) == ["NEG", "RELU", "SUB", "TANH"]
    assert {"dec/a", "dec/b"} <= {node.name for node in graph.nodes}
    after = run_stock(graph, tmp_path / "after.tflite")
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))


def test_one_op_takes_several_outputs_of_different_ops() -> None:
    s = Sketch()
    a, b = two_outputs(s)
    graph = s.graph(b, s("NEG", a))
    (made,) = assign_descriptions([], [scope("dec", op="Decoder")])
    assert made.find_and_replace_pattern(graph) == 1
    (decoder,) = graph.get_op_nodes(op="Decoder")
    assert [port.name for port in decoder.out_ports().values()] == ["dec/a", "dec/b"]
    assert ops(graph) == ["Decoder", "NEG"]
    assert graph.subgraph.outputs[0] is decoder.out_port(1).tensor


def test_ports_may_be_connected_by_hand_as_the_model_optimizer_has_it() -> None:
    class ByHand(SubgraphReplacement):
        replacement_id = "Block"

        def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> None:
            node, port = match.single_input_node(1)
            source = node.in_port(port).get_source()
            assert source is not None
            elu = graph.create_op("ELU", [source])
            out_node, out_port = match.output_node(0)
            out_node.out_port(out_port).get_connection().set_source(elu.out_port(0))

    graph = build("model/dec")
    assert replace(graph, scope("model/dec"), ByHand()) == 1
    graph.clean_up()
    assert ops(graph) == ["ELU", "NEG"]


def test_what_is_to_be_removed_may_be_less_than_all() -> None:
    class KeepGate(BlockReplacement):
        def nodes_to_remove(self, graph: Graph, match: SubgraphMatch) -> list[Node]:
            return [node for node in match.nodes if "/gate/" not in node.name]

        def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> Node:
            gate = match.node_by_pattern("gate/out")
            return graph.create_op("Block", [*match.inputs, gate], is_custom=True)

    graph = build("model/dec")
    assert replace(graph, scope("model/dec"), KeepGate()) == 1
    assert ops(graph) == ["TANH", "MUL", "LOGISTIC", "Block", "NEG"]


def test_points_enclose_what_lies_between_them_and_what_that_needs() -> None:
    s = Sketch()
    x = s.input()
    start = s("RELU", x, name="start")
    beside = s("NEG", start, name="beside")
    constant = s("EXP", np.ones(4, np.float32), name="constant")
    inner = s("MUL", s("ADD", start, constant, name="add"), 2.0, name="mul")
    graph = s.graph(s("ABS", inner, name="end"), s("TANH", beside, name="other"))
    with pytest.raises(
        LiteRtError, match="NEG 'beside', which is outside of the sub-graph, reads tensor 'start'"
    ):
        list(matching_instances(graph, points(["start"], ["mul"])))
    match = find_one(graph, points(["start"], ["mul"], with_start=False))
    assert match.matched_nodes_names() == ["constant", "add", "mul"]
    assert names(match.inputs) == ["start"] and names(match.outputs) == ["mul"]
    match = find_one(graph, points(["start"], ["mul", "end"], with_start=False, with_end=False))
    assert match.matched_nodes_names() == ["constant", "add"]
    assert names(match.outputs) == ["add"]


def test_inputs_and_outputs_are_in_the_order_of_the_points() -> None:
    s = Sketch()
    x, y = s.input("x"), s.input("y")
    a, b = s("RELU", x, name="a"), s("TANH", y, name="b")
    c = s("ADD", a, b, name="c")
    graph = s.graph(s("NEG", c), s("ABS", s("MUL", c, b, name="d")))
    match = find_one(graph, points(["b", "a"], ["d", "c"]))
    assert names(match.inputs) == ["y", "x"] and names(match.outputs) == ["d", "c"]
    match = find_one(graph, points(["b", "a"], ["d", "c"], with_start=False))
    assert names(match.inputs) == ["b", "a"] and len(match.nodes) == 2


def test_inputs_and_constants_of_the_model_may_be_start_points() -> None:
    s = Sketch()
    graph = s.graph(s("MUL", s.input(), np.arange(4.0), name="mul"))
    match = find_one(graph, points(["mul/c1", "x"], ["mul"]))
    assert names(match.inputs) == ["mul/c1", "x"] and match.matched_nodes_names() == ["mul"]


def test_one_op_may_be_start_and_end() -> None:
    graph = build("model/dec")
    match = find_one(graph, points(["model/stem"], ["model/stem"]))
    assert match.matched_nodes_names() == ["model/stem"]
    assert replace(graph, points(["model/stem"], ["model/stem"])) == 1
    assert ops(graph)[0] == "Block"


def returning() -> Graph:
    """Builds dec/a -> outside -> dec/b, where a path leaves the scope `dec` and comes back."""
    s = Sketch()
    a = s("RELU", s.input(), name="dec/a")
    outside = s("TANH", s("NEG", a, name="outside/1"), name="outside/2")
    return s.graph(s("ADD", a, outside, name="dec/b"))


def twins() -> Graph:
    s = Sketch()
    x = s.input()
    return s.graph(s("ADD", s("RELU", x, name="a"), s("TANH", x, name="a"), name="b"))


WRONG: dict[str, tuple[Graph, ReplacementDescription, str]] = {
    "comes_back": (
        returning(), scope("dec"),
        "the sub-graph reads its own results through ops outside of it, on the path "
        "'dec/a' -> 'outside/1' -> 'outside/2' -> 'dec/b'",
    ),
    "leaks": (
        build("model/dec"), scope("model/dec/gate", outputs=[PortName("scale", 0)]),
        "MUL 'model/dec/mul', which is outside of the sub-graph, reads tensor 'model/dec/gate/out', "
        "but the description does not list this tensor as an output of the sub-graph",
    ),
    "no_output_of_that_name": (
        build("model/dec"), scope("model/dec", outputs=[PortName("sum", 0)]),
        "no op of the sub-graph has a name that matches 'sum'",
    ),
    "no_port": (
        build("model/dec"), scope("model/dec", outputs=[PortName("add", 3)]),
        "ADD 'model/dec/add' has no output 3: the only output has index 0",
    ),
    "two_of_that_name": (
        build("model/dec"), scope("model/dec", inputs=[[PortName("gate", 0)]]),
        "'gate' must match the name of one op, but matches 2 ops: 'model/dec/gate/scale', 'model/dec/gate/out'",
    ),
    "different_values": (
        build("model/dec"), scope("model/dec", inputs=[[PortName("relu", 0), PortName("add", 0)]]),
        "are listed as one input, but read different tensors",
    ),
    "from_inside": (
        build("model/dec"), scope("model/dec", inputs=[[PortName("mul", 0)]]),
        "reads tensor 'model/dec/relu', which an op of the sub-graph writes",
    ),
    "same_value_twice": (
        build("model/dec"),
        scope("model/dec", inputs=[[PortName("relu", 0)], [PortName("gate/scale", 0)]]),
        "reads tensor 'model/stem', which an earlier list of 'inputs' also reads",
    ),
    "depends_on_an_input": (
        build("model/dec"), points(["model/dec/relu"], ["model/dec/add"]),
        "a path from the model input 'x' to the end points contains no start point",
    ),
    "not_reached": (
        build("model/dec"), points(["model/head"], ["x"]),
        "end point 'x' must be an op, but is a Parameter",
    ),
    "leads_nowhere": (
        build("model/dec"), points(["model/stem", "x", "model/head"], ["model/dec/add"]),
        "start point 'model/head' leads to no end point",
    ),
    "not_led_to": (
        build("model/dec"), points(["x"], ["model/dec/add", "model/constant"]),
        "the model has no node 'model/constant', although it has the node 'x' of the same description",
    ),
    "nothing_between": (
        build("model/dec"), points(["x"], ["model/stem"], with_end=False), "no op between the start points",
    ),
    "name_of_several": (twins(), points(["a"], ["b"]), "2 nodes of the model have the name 'a'"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_a_sub_graph_that_nothing_could_replace_is_refused(
    case: tuple[Graph, ReplacementDescription, str],
) -> None:
    graph, description, what = case
    with pytest.raises(LiteRtError) as error:
        replace(graph, description)
    assert error.value.status is Status.INVALID_ARGUMENT and what in error.value.what


def test_what_took_the_place_of_a_scope_can_be_in_the_next() -> None:
    graph = build("model/dec", "model/enc")
    (made,) = assign_descriptions([], [scope("model/dec", "model", op="Block")])
    assert made.find_and_replace_pattern(graph) == 2
    assert ops(graph) == ["Block"]


def test_a_class_that_nothing_describes_is_told_of() -> None:
    replacement, region = BlockReplacement(), Yolo()
    assign_descriptions([replacement, region], [])
    assert replacement.find_and_replace_pattern(build("model/dec")) == 0
    found = [*replacement.find_unmatched(), *region.find_unmatched()]
    assert found == [
        "transformation 'block_replacement' has no effect: no description in a file of "
        "--transformations_config has the id 'Block'",
        "transformation 'yolo' has no effect: no description in a file of --transformations_config has "
        "the id 'TFYOLO'",
    ]


def test_what_no_graph_has_is_said() -> None:
    replacement = BlockReplacement()
    assign_descriptions([replacement], [scope("model/dec", "model/enc"), points(["no"], ["such"])])
    assert replacement.find_and_replace_pattern(build("model/dec")) == 1
    assert replacement.find_unmatched() == [
        "c.json, $[0]: no op of the model is in scope 'model/enc'",
        "c.json, $[0]: no op of the model is between the points",
    ]
    assert replacement.find_and_replace_pattern(build("model/enc")) == 1
    assert len(replacement.find_unmatched()) == 1


class Yolo(GeneralReplacement):
    """Adds a region layer at each output."""

    replacement_id = "TFYOLO"

    def transform_graph(self, graph: Graph, descriptions: Any) -> None:
        for result in graph.results:
            region = graph.create_op("RegionYolo", [None], descriptions, is_custom=True)
            result.in_port(0).get_connection().insert_node(region)


def general(**attributes: Any) -> ReplacementDescription:
    return ReplacementDescription(
        "TFYOLO", MatchKind.GENERAL, custom_attributes=attributes, where="c.json, $[1]"
    )


def test_a_general_replacement_gets_the_attributes_and_runs_once_for_each_description() -> None:
    graph = build("model/dec")
    yolo = Yolo()
    assert yolo.find_and_replace_pattern(graph) == 0
    assign_descriptions([yolo, BlockReplacement()], [general(classes=20), general(classes=80)])
    assert yolo.find_and_replace_pattern(graph) == 2
    assert ops(graph)[-2:] == ["RegionYolo", "RegionYolo"]
    assert [node.classes for node in graph.get_op_nodes(op="RegionYolo")] == [20, 80]
    assert yolo.find_unmatched() == []


def test_an_id_that_no_transformation_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(LiteRtError) as error:
        assign_descriptions([Yolo()], [ReplacementDescription("TFYOLOV3", MatchKind.GENERAL)])
    assert error.value.status is Status.NOT_FOUND
    assert "'TFYOLOV3'" in error.value.what and "Did you mean 'TFYOLO'?" in error.value.hint


def test_a_description_of_another_kind_than_the_class_is_for_is_refused() -> None:
    with pytest.raises(LiteRtError, match=r"transformation 'yolo' accepts only 'general'\. Set"):
        assign_descriptions([Yolo()], [ReplacementDescription("TFYOLO", MatchKind.SCOPE, ["a"])])
    with pytest.raises(LiteRtError, match=r"accepts only 'scope' or 'points'\. Set"):
        assign_descriptions(
            [BlockReplacement()], [ReplacementDescription("Block", MatchKind.GENERAL)]
        )


def test_an_empty_id_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(
        LiteRtError, match=r"replacement_id must be an id, but is '' \(class Nameless\)"
    ):

        class Nameless(SubgraphReplacement):
            replacement_id = ""
