"""Tests extensions that are written for the Model Optimizer, with changed imports and no other change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.transform_options import Phase, TransformOptions
from compiler_plugin.transformations import edit_model
from compiler_plugin.transformations.custom_ops import write_options
from compiler_plugin.transformations.data_node import DataNode
from compiler_plugin.transformations.edge_pattern import read_edge_pattern
from compiler_plugin.transformations.model_optimizer import (
    Const,
    Graph,
    Mul,
    Node,
    Op,
    Port,
    Reshape,
    create_op_node_with_second_input,
    create_op_with_const_inputs,
    float_array,
    int32_array,
    rename_nodes,
)
from compiler_plugin.transformations.op import Record
from compiler_plugin.transforming import transform_file
from litert import CompiledModel, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.custom_options import find_flexbuffer_options
from litert.model.raw_options import raw_fields
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.compiler_plugin.transformations.sketch import SHAPE, Sketch

IMPORT = "from compiler_plugin.transformations.model_optimizer import "


def transform(
    folder: Path, s: Sketch, *outputs: Any, part: str = "front", config: str = "", text: str
) -> list[str]:
    """Runs an extension on a model, and compares the outputs in stock LiteRT; returns the names of the new ops."""
    file = folder / "mine" / part / "extension.py"
    file.parent.mkdir(parents=True)
    file.write_text(dedent(text))
    s.builder.output(*outputs)
    write_model(s.builder.build(), folder / "in.tflite")
    files = []
    if config:
        (folder / "config.json").write_text(config)
        files = [str(folder / "config.json")]
    options = TransformOptions(
        [str(folder / "mine")], selection=["-all", "all", "-middle"] if part != "middle" else [],
        config=files,
    )  # fmt: skip
    transform_file(folder / "in.tflite", folder / "out.tflite", options)
    with read_model(folder / "out.tflite") as model:
        names = [op.name for op in model.ops()]
        outputs_after = [tensor.name for tensor in model.subgraphs[0].outputs]
    assert outputs_after == [tensor.name for tensor in outputs]
    if all(name.isupper() for name in names):
        before, after = (run(folder / f"{name}.tflite") for name in ("in", "out"))
        for old, new in zip(before, after, strict=True):
            np.testing.assert_allclose(old, new, rtol=1e-5, atol=1e-6)
    return names


def run(path: Path) -> list[np.ndarray[Any, Any]]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for entry in interpreter.get_input_details():
        value = rng.uniform(0.5, 2, entry["shape"]).astype(entry["dtype"])
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


DECOMPOSITION = f"""
{IMPORT}FrontReplacementOp, Graph, Mul, Node, Sub, rename_nodes


class SquaredDifference(FrontReplacementOp):
    op = "SQUARED_DIFFERENCE"
    enabled = True

    def replace_op(self, graph: Graph, node: Node):
        name = node.soft_get("name", node.id)
        difference = Sub(graph, dict(name=name + "/difference")).create_node(
            [node.in_node(0), node.in_node(1)]
        )
        square = Mul(graph, dict(name=name + "/square")).create_node([difference, difference])
        rename_nodes([(node, name + "/TBR"), (square, name)])
        return RETURNED
"""


@pytest.mark.parametrize(
    "returned",
    ["[square.id]", "[(square.id, 0)]", "[square]", "square", "[square.out_port(0)]", "square.id"],
)
def test_an_op_is_decomposed_and_ids_stand_for_what_takes_its_place(
    tmp_path: Path, returned: str
) -> None:
    s = Sketch()
    result = s("SQUARED_DIFFERENCE", s.input(), s.input("y"), name="result")
    text = DECOMPOSITION.replace("RETURNED", returned)
    assert transform(tmp_path, s, result, text=text) == ["SUB", "MUL"]


SWISH = f"""
{IMPORT}FrontFinish, FrontReplacementSubgraph, FrontStart, Graph, Op, SubgraphMatch


class SwishFusion(FrontReplacementSubgraph):
    enabled = True
    graph_condition = [lambda graph: not graph.graph['cmd_params'].static_shape]
    force_clean_up = True

    def run_after(self):
        return [FrontStart]

    def run_before(self):
        return [FrontFinish]

    def pattern(self):
        return dict(
            nodes=[
                ("mul", dict(op="MUL")),
                ("sigmoid", dict(op="LOGISTIC")),
            ],
            edges=[("sigmoid", "mul"EDGE)],
        )

    def replace_sub_graph(self, graph: Graph, match: [dict, SubgraphMatch]):
        mul, sigmoid = match["mul"], match["sigmoid"]
        other = int(mul.in_port(0).get_connection().get_source().node.soft_get("op") == "LOGISTIC")
        if mul.in_port(other).get_source() != sigmoid.in_port(0).get_source():
            return
        swish = Op.get_op_class_by_name("Swish")(graph, dict(beta=1.5)).create_node()
        swish.in_port(0).connect(mul.in_port(other).get_source())
        mul.out_port(0).get_connection().set_source(swish.out_port(0))
"""


SWISH_OP = f"""
{IMPORT}Graph, Node, Op


class Swish(Op):
    op = "Swish"

    def __init__(self, graph: Graph, attrs: dict):
        super().__init__(graph, {{
            "type": __class__.op,
            "op": __class__.op,
            "version": "opset4",
            "infer": Swish.infer,
            "in_ports_count": 1,
            "out_ports_count": 1,
        }}, attrs)

    def backend_attrs(self):
        return ["beta"]

    @staticmethod
    def infer(node: Node):
        node.out_node(0).shape = node.in_node(0).shape.copy()
"""


@pytest.mark.parametrize(
    ("edge", "order", "is_found"),
    [
        ("", [0, 1], True),
        ("", [1, 0], True),
        (", {'in': 1}", [0, 1], True),
        (", {'in': 1}", [1, 0], False),
        (", {'in': 0, 'out': 0}", [1, 0], True),
        (", {'out': 1}", [1, 0], False),
    ],
)
def test_a_pattern_of_nodes_and_edges_is_fused(
    tmp_path: Path, edge: str, order: list[int], is_found: bool
) -> None:
    s = Sketch()
    x = s.input()
    both = [x, s("LOGISTIC", x)]
    result = s("MUL", *(both[i] for i in order), name="result")
    text = SWISH.replace("EDGE", edge)
    if is_found:
        ops = tmp_path / "mine" / "ops"
        ops.mkdir(parents=True)
        (ops / "swish.py").write_text(SWISH_OP)
    names = transform(tmp_path, s, result, text=text)
    assert names == (["Swish"] if is_found else ["LOGISTIC", "MUL"])


def test_what_has_other_edges_is_no_match_and_no_node_is_two(tmp_path: Path) -> None:
    s = Sketch()
    sigmoid = s("LOGISTIC", s.input())
    result = s("MUL", sigmoid, sigmoid, name="result")  # two edges from one node
    names = transform(tmp_path, s, result, text=SWISH.replace("EDGE", ""))
    assert names == ["LOGISTIC", "MUL"]


MIDDLE = f"""
{IMPORT}MiddleReplacementPattern, Graph, Relu6


class ClipToRelu6(MiddleReplacementPattern):
    enabled = True

    def pattern(self):
        return dict(
            nodes=[
                ("x", dict(kind="data")),
                ("low", dict(kind="data", value=lambda value: value is not None and value == 0)),
                ("max", dict(kind="op", op="MAXIMUM")),
                ("max_data", dict(kind="data", shape=lambda shape: len(shape) == 4)),
                ("high", dict(kind="data", value=lambda value: value is not None and value == 6)),
                ("min", dict(kind="op", op=lambda op: op in ("MINIMUM", "Clip"))),
                ("min_data", dict(kind="data")),
            ],
            edges=[
                ("x", "max"),
                ("low", "max"),
                ("max", "max_data"),
                ("max_data", "min", {{"in": 0}}),
                ("high", "min", {{"in": 1}}),
                ("min", "min_data"),
            ],
        )

    def replace_pattern(self, graph: Graph, match: dict):
        assert tuple(match["x"].shape) == tuple(match["min_data"].shape)
        assert match["max_data"].in_node(0).id == match["max"].id
        assert match["max_data"].out_node() is match["min"] is match["min_data"].in_node()
        assert match["low"].value.shape == ()
        name = match["min"].soft_get("name", match["min"].id)
        relu = Relu6(graph, dict(name=name + "/relu")).create_node([match["x"]])
        match["min"].out_port(0).get_connection().set_source(relu.out_port(0))
"""


@pytest.mark.parametrize("high", [6.0, 5.0])
def test_a_pattern_of_the_middle_phase_has_data_nodes(tmp_path: Path, high: float) -> None:
    s = Sketch()
    result = s("MINIMUM", s("MAXIMUM", s.input(), 0.0), high, name="result")
    names = transform(tmp_path, s, result, part="middle", text=MIDDLE)
    assert names == (["RELU6"] if high == 6 else ["MAXIMUM", "MINIMUM"])


SCOPE = """[{"id": "Clip", "match_kind": "scope", "instances": ["clip"],
 "custom_attributes": {"high": 6}, "inputs": [[{"node": "low$", "port": 0}]],
 "outputs": [{"node": "high$", "port": 0}], "op": "RELU6"}]"""
CONFIGURED = f"""
{IMPORT}FrontReplacementFromConfigFileSubGraph, Graph, Relu6, SubgraphMatch


class ClipReplacement(FrontReplacementFromConfigFileSubGraph):
    replacement_id = "Clip"

    def generate_sub_graph(self, graph: Graph, match: SubgraphMatch):
        assert match.custom_replacement_desc.custom_attributes["high"] == 6
        relu = Relu6(graph, dict(name=match.scope + "/relu")).create_node()
        return {{"relu": relu}}

    def input_edges_match(self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict):
        node, port = match.single_input_node(0)
        return {{(node.id, port): new_sub_graph["relu"].id}}

    def output_edges_match(self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict):
        return {{match.output_node(0)[0].id: (new_sub_graph["relu"].id, 0)}}

    def nodes_to_remove(self, graph: Graph, match: SubgraphMatch):
        names = match.matched_nodes_names()
        names.remove(match.output_node(0)[0].id)
        return names
"""


@pytest.mark.parametrize(
    "text",
    [
        CONFIGURED,
        f"{IMPORT}FrontReplacementFromConfigFileOp\n\n"
        "class Clip(FrontReplacementFromConfigFileOp):\n    replacement_id = 'Clip'\n",
    ],
    ids=["sub_graph", "op"],
)
def test_a_sub_graph_that_a_file_names_is_replaced(tmp_path: Path, text: str) -> None:
    s = Sketch()
    low = s("MAXIMUM", s.input(), 0.0, name="clip/low")
    result = s("MINIMUM", low, 6.0, name="clip/high")
    config = SCOPE if "generate" in text else SCOPE.replace('{"high": 6}', "{}")
    assert transform(tmp_path, s, result, config=config, text=text) == ["RELU6"]


GENERAL = f"""
{IMPORT}FrontReplacementFromConfigFileGeneral, Graph


class SetAlpha(FrontReplacementFromConfigFileGeneral):
    replacement_id = "Alpha"

    def transform_graph(self, graph: Graph, replacement_descriptions):
        for node in graph.get_op_nodes(op="LEAKY_RELU"):
            node["alpha"] = replacement_descriptions["alpha"]
"""


def test_a_general_transformation_gets_its_attributes_from_the_file(tmp_path: Path) -> None:
    s = Sketch()
    result = s("LEAKY_RELU", s.input(), name="result", alpha=0.5)
    config = '[{"id": "Alpha", "match_kind": "general", "custom_attributes": {"alpha": 0.5}}]'
    assert transform(tmp_path, s, result, config=config, text=GENERAL) == ["LEAKY_RELU"]


OPS = f"""
import numpy as np

{IMPORT}Graph, Node, Op, get_backend_pad


class Softmax(Op):
    # the class attribute defining a name of the operation so the operation class can be obtained using the
    # "Op.get_op_class_by_name()" static method
    op = 'SoftMax'

    enabled = False

    def __init__(self, graph: Graph, attrs: dict):
        super().__init__(graph, {{
            'type': __class__.op,  # the operation is from the opset so the type is set to 'SoftMax'
            'op': __class__.op,  # internal Model Optimizer operation has the same type
            'version': 'opset1',  # the operation corresponds to opset1
            'infer': Softmax.infer,  # shape inference function is defined below
            'axis': 1,  # default value for the "axis" attribute of the operation SoftMax
            'in_ports_count': 1,  # the operation has one input
            'out_ports_count': 1,  # the operation produces one output
        }}, attrs)

    def supported_attrs(self):
        return ['axis']

    @staticmethod
    def infer(node: Node):
        node.out_port(0).data.set_shape(node.in_port(0).data.get_shape())


class Pooling(Op):
    op = 'Pooling'

    def __init__(self, graph: Graph, attrs: dict):
        super().__init__(graph, {{
            'version': 'experimental',
            'infer': Softmax.infer,
            'spatial_dims': np.array([1, 2]),
            'stride': np.array([1, 2, 3, 1]),
            'window': np.array([1, 4, 5, 1]),
            'pad': np.array([[0, 0], [1, 2], [3, 4], [0, 0]]),
            'pool_method': 'max',
            'exclude_pad': 'true',
            'rounding_type': None,
            'auto_pad': 'valid',
            'in_ports_count': 1,
        }}, attrs)

    def backend_attrs(self):
        return [
            ('strides', lambda node: ','.join(map(str, node['stride'][node.spatial_dims]))),
            ('kernel', lambda node: ','.join(map(str, node['window'][node.spatial_dims]))),

            ('pads_begin', lambda node: ','.join(map(str, get_backend_pad(node.pad, node.spatial_dims, 0)))),
            ('pads_end', lambda node: ','.join(map(str, get_backend_pad(node.pad, node.spatial_dims, 1)))),

            ('pool-method', 'pool_method'),
            ('exclude-pad', 'exclude_pad'),

            'rounding_type',
            'auto_pad',
        ]
"""


def test_the_op_classes_that_the_documents_print_load_and_are_written(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "document.py").write_text(OPS)
    s = Sketch()
    s.builder.output(s("RELU", s.input()))
    model = s.builder.build()
    with edit_model(model, [str(tmp_path)]) as (graph,):
        relu = graph.nodes[0]
        softmax = Op.get_op_class_by_name("SoftMax")(graph, {"axis": 2}).create_node()
        pooling = Op.get_op_class_by_name("Pooling")(graph, {}).create_node([softmax])
        softmax.in_port(0).connect(relu.out_port(0))
        graph.results[0].in_port(0).connect(pooling.out_port(0))
    options = {op.name: flexbuffer(op.custom_options) for op in model.ops() if op.is_custom}
    assert options["SoftMax"] == {"axis": 2}
    assert options["Pooling"] == {
        "strides": "2,3", "kernel": "4,5", "pads_begin": "1,3", "pads_end": "2,4",
        "pool-method": "max", "exclude-pad": "true", "auto_pad": "valid",
    }  # fmt: skip
    assert {op.code.version for op in model.ops() if op.is_custom} == {1}


@pytest.mark.parametrize("kind", ["builtin", "struct"])
def test_a_text_where_a_number_is_written_says_what_to_write(kind: str) -> None:
    class Pool(Op):
        op = "Pool"
        raw_options = raw_fields(("stride_w", "int32")) if kind == "struct" else None

        def backend_attrs(self) -> Sequence[Record]:
            return [("stride_w", lambda node: ",".join(map(str, node["stride"])))]

    s = Sketch()
    s.builder.output(s("RELU", s.input()))
    attributes: dict[str, Any] = {"stride": int32_array([2, 3])}
    if kind == "builtin":
        attributes["type"] = "MAX_POOL_2D"
    with pytest.raises(LiteRtError) as error, edit_model(s.builder.build()) as (graph,):
        pool = Pool(graph, attributes).create_node([graph.nodes[0]])
        pool.infer = lambda node: node.out_port(0).data.set_shape(SHAPE)
        graph.results[0].in_port(0).connect(pool.out_port(0))
    assert "2,3" in error.value.what and "In backend_attrs, return numbers" in error.value.hint
    assert "Pool 'relu_1'" in error.value.where


def test_a_kernel_has_the_text_of_an_attribute(tmp_path: Path) -> None:
    s = Sketch()
    s.builder.output(s("Pool", s.input(), strides="2,3"))
    write_model(s.builder.build(), tmp_path / "in.tflite")
    (tmp_path / "Pool.cl").write_text(
        "__kernel void Pool(const __global float* x, __global float* y) {"
        " const int strides[] = {PARAM_strides};"
        " y[get_global_id(0)] = strides[0] + 10 * strides[1]; }"
    )
    info = CustomOpInfo("Pool", str(tmp_path / "Pool.cl"))
    options = ApplyOptions(compiler=CompilerOptions([info]))
    apply_plugin(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(str(tmp_path / "out.tflite"), accelerators) as npu:
        (result,) = npu.run({"x": np.zeros(SHAPE, np.float32)}).values()
    assert result.flat[0] == 32


def flexbuffer(options: Any) -> Any:
    return find_flexbuffer_options(options.view)


def test_an_id_is_the_nodes_and_its_name_where_there_is_no_other() -> None:
    s = Sketch()
    x = s.input()
    graph = s.graph(s("RELU", x))
    for made in (Mul(graph, {"id": "mine"}), Softplus(graph, {"id": "other"})):
        node = made.create_node([graph.parameters[0], *([2.0] if made.op == "MUL" else [])])
        assert node.id == node.name == made.attrs["id"]
        assert graph.find_by_id(node.id) is node
    named = Mul(graph, {"id": "third", "name": "a name"}).create_node([graph.parameters[0], 2.0])
    assert (named.id, named.name) == ("third", "a name")
    free = Mul(graph).create_node([graph.parameters[0], 2.0])
    assert free.id == free.name == "mul"
    named.name = "another"
    assert named.id == "third"
    for taken in ("mine", "x", "relu_1"):
        with pytest.raises(LiteRtError, match=f"a new MUL cannot have the id '{taken}'"):
            Mul(graph, {"id": taken}).create_node([graph.parameters[0], 2.0])


class Softplus(Op):
    op = "Softplus"


def test_update_node_stat_keeps_the_id_and_sets_the_name() -> None:
    s = Sketch()
    (node,) = s.graph(s("Softplus", s.input(), name="before")).nodes
    Softplus.update_node_stat(node, {"name": "after", "id": "before"})
    assert (node.id, node.name) == ("before", "after")
    with pytest.raises(
        LiteRtError, match="the id of Softplus 'after' cannot change from 'before' to 'mine'"
    ):
        Softplus.update_node_stat(node, {"id": "mine"})


@pytest.fixture
def graph() -> Graph:
    s = Sketch()
    x = s.input()
    return s.graph(s("ADD", s("RELU", x, name="relu"), x, name="add"))


def test_ports_are_dictionaries_by_number(graph: Graph) -> None:
    relu, add = graph.nodes
    assert list(add.in_ports()) == [0, 1] and list(add.out_ports()) == [0]
    for index, port in add.in_ports().items():
        assert (port.idx, port.type, port.node) == (index, "in", add)
        assert port == add.in_port(index) and isinstance(port, Port)
    assert add.out_ports()[0] == add.out_port(0) and add.out_port(0).type == "out"
    assert not relu.in_port(0).disconnected() and not relu.out_port(0).disconnected()
    relu.in_port(0).disconnect()
    assert relu.in_port(0).disconnected()
    relu.out_port(0).disconnect()
    assert relu.out_port(0).disconnected() and relu.out_port(0).get_destinations() == []


def test_ports_come_and_go_by_number() -> None:
    s = Sketch()
    (node,) = s.graph(s("Mine", s.input())).nodes
    assert node.add_input_port(2) == node.in_port(2)
    assert [port.disconnected() for port in node.in_ports().values()] == [False, True, True]
    assert node.add_input_port(2, skip_if_exist=True) == node.in_port(2)
    with pytest.raises(LiteRtError, match="already has input port 2"):
        node.add_input_port(2)
    with pytest.raises(LiteRtError, match="-1 is not a port number"):
        node.add_input_port(-1)
    assert node.add_output_port(1) == node.out_port(1)
    assert node.add_output_port(1, skip_if_exist=True) == node.out_port(1)
    with pytest.raises(
        LiteRtError,
        match=r"cannot have output port 3 yet\. Add the ports in order: the next output port has index 2",
    ):
        node.add_output_port(3)
    node.delete_output_port(1)
    node.delete_input_port(1)
    assert (len(node.in_ports()), len(node.out_ports())) == (2, 1)
    with pytest.raises(
        LiteRtError, match=r"output 0 of Mine '.*' cannot be deleted, because Result '.*' reads it"
    ):
        node.delete_output_port(0)


def test_a_connection_has_its_ends_as_attributes_too(graph: Graph) -> None:
    relu, add = graph.nodes
    connection = relu.out_port(0).get_connection()
    assert connection.source == connection.get_source() == relu.out_port(0)
    assert connection.destination == connection.get_destination() == add.in_port(0)
    assert connection.destinations == connection.get_destinations() == [add.in_port(0)]
    both = graph.parameters[0].out_port(0).get_connection()
    assert len(both.destinations) == 2
    with pytest.raises(LiteRtError, match="has 2 readers"):
        assert both.destination


def test_neighbours_are_nodes_in_the_front_phase_and_data_behind_it(graph: Graph) -> None:
    relu, add = graph.nodes
    parameter = graph.parameters[0]
    graph.stage = Phase.FRONT
    assert add.in_nodes() == {0: relu, 1: parameter} and relu.out_nodes() == {0: add}
    assert add.in_node(0) is relu and relu.out_node() is add
    assert tuple(parameter.shape) == SHAPE and parameter.has_valid("shape")
    with pytest.raises(LiteRtError, match="output 0 of Parameter 'x' has 2 readers"):
        parameter.out_node(0)
    with pytest.raises(AttributeError, match=r"Use out_port\(0\).data.get_shape\(\) instead"):
        assert relu.shape
    graph.stage = Phase.MIDDLE
    data = add.in_node(0)
    assert isinstance(data, DataNode) and data == relu.out_node(0) == relu.out_nodes()[0]
    assert (data.id, data.name, data["kind"], data.soft_get("none", 3)) == (
        "relu",
        "relu",
        "data",
        3,
    )
    assert data.value is None and data.has_valid("shape") and not data.has_valid("value")
    assert list(data.shape[[0, 3, 1, 2]]) == [1, 4, 2, 2]
    assert data.in_node() is relu and data.out_nodes() == {0: add}
    with pytest.raises(
        LiteRtError,
        match=r"out_node\(1\) does not exist for data node 'relu': the only out_node has index 0",
    ):
        data.out_node(1)
    with pytest.raises(
        LiteRtError, match=r"data node 'relu' has no attribute 'axis'. The attributes are id, kind"
    ):
        assert data["axis"]
    parameter.shape = (1, 3, 2, 4)
    assert add.in_node(0).shape.tolist() == [1, 3, 2, 4]
    add.in_node(1).shape = np.array([1, 5, 2, 4])
    assert add.out_port(0).data.get_shape() == (1, 5, 2, 4)
    graph.create_op("MUL", [data, (relu, 0)])  # data nodes can be inputs of a new op


def test_constants_have_value_and_shape_which_can_be_set(graph: Graph) -> None:
    (relu, add), constant = graph.nodes, Const(graph, {"value": int32_array([1, 2])}).create_node()
    assert constant.value.tolist() == [1, 2] and constant.shape.tolist() == [2]
    constant.value = [3, 4, 5]
    assert constant.value.tolist() == [3, 4, 5] and constant.shape.tolist() == [3]
    assert graph.results[0].shape.tolist() == list(SHAPE)
    assert relu.has_and_set("fused") is False and add.has_and_set("fused_activation_function")


def test_attributes_can_be_taken_away() -> None:
    s = Sketch()
    graph = s.graph(s("RELU", s("Mine", s.input(), axis=3, mode="x")))
    mine, relu = graph.nodes
    del mine["axis"]
    assert not mine.has("axis") and mine.mode == "x" and mine.is_changed
    write_options(mine)
    assert flexbuffer(mine.model_op.custom_options) == {"mode": "x"}  # type: ignore[union-attr]
    mine.own = 5
    del mine.own
    for node, name, says in [
        (mine, "own", "has no attribute 'own'"),
        (mine, "op", "attribute 'op' of Mine 'mine_1' cannot be removed"),
        (relu, "name", "attribute 'name' of RELU 'relu_2' cannot be removed"),
    ]:
        with pytest.raises(LiteRtError, match=says):
            del node[name]


def test_nodes_are_sorted_and_given_and_removed_by_id(graph: Graph) -> None:
    relu, add = graph.nodes
    assert graph.topological_sort() == [relu, add]
    assert graph.topological_sort(reverse=True) == [add, relu]
    assert graph.get_nodes_with_attributes(op="ADD") == [add]
    made = graph.create_op("NEG", [relu])
    graph.remove_node(made.id)
    assert not made.is_alive and graph.find_by_id(made.id) is None
    with pytest.raises(LiteRtError, match="the graph has no node with the id or name 'none'"):
        graph.remove_node("none")


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda g: g.nodes(data=True), "graph.nodes is a list of nodes, not a function"),
        (lambda g: g.nodes["relu"], "graph.nodes is a list, and has no key 'relu'"),
        (lambda g: g.node["relu"], "a graph has no attribute 'node'. Loop over graph.nodes"),
        (lambda g: g.edges(data=True), "a graph has no attribute 'edges'. Use node.in_port"),
        (lambda g: g.in_edges("relu"), "a graph has no attribute 'in_edges'. Use node.in_port"),
        (lambda g: g.erase_node(g.nodes[0]), "a graph has no attribute 'erase_node'. Connect"),
        (
            lambda g: Node(g, "relu"),
            r"Node\(graph, 'relu'\) does not create a node. Use graph.find_node",
        ),
        (lambda g: g.nothing, "'Graph' object has no attribute 'nothing'"),
    ],
)
def test_what_networkx_has_is_an_error_that_names_its_counterpart(
    graph: Graph, use: Any, says: str
) -> None:
    with pytest.raises((LiteRtError, AttributeError), match=says):
        use(graph)


def test_conditions_ask_for_layout_flags_and_phase_as_there(graph: Graph) -> None:
    assert (graph.graph["layout"], graph.graph["fw"]) == ("NHWC", "tflite")
    assert graph.graph["cmd_params"].static_shape is False
    assert graph.stage == "middle" and graph.get_op_nodes(op="RELU")


def test_functions_that_make_ops_and_names(graph: Graph) -> None:
    x = graph.parameters[0]
    twice = create_op_with_const_inputs(graph, Mul, {1: float_array(2)}, {"name": "twice"}, x)
    assert twice.name == "twice" and twice.in_port(1).data.get_value() == 2
    flat = create_op_node_with_second_input(graph, Reshape, int32_array([2, -1]), {}, twice)
    assert flat.out_port(0).data.get_shape() == (2, 8)
    empty = create_op_with_const_inputs(graph, Reshape, {1: int32_array([4])})
    assert empty.in_port(0).disconnected()
    rename_nodes([(twice, "old"), (flat, "twice")])
    assert (twice.name, flat.name) == ("old", "twice")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("int64_array", "TFLite's shapes and axes are int32: import int32_array"),
        ("Result", "A transformation cannot create inputs and results of a model"),
        ("Concat", r"Did you mean 'Concatenation'\?"),
        ("FrontReplacementSubGraph", r"Did you mean 'FrontReplacementSubgraph'\?"),
        ("MVN", r"Import an op of your own from its file: from \.\.ops"),
    ],
)
def test_a_name_that_is_not_here_says_what_is(name: str, says: str) -> None:
    with pytest.raises(ImportError, match=says):
        exec(f"{IMPORT}{name}")


CLASS = f"{IMPORT}*\n\nclass A({{}}):\n    pass\n"


@pytest.mark.parametrize(
    ("part", "text", "says"),
    [
        (
            "middle",
            CLASS.format("FrontReplacementOp"),
            "class A is for the front phase, but the file is not in the folder front",
        ),
        (
            "back",
            CLASS.format("MiddleReplacementPattern"),
            "A is for the middle phase, but the file is not in the folder middle",
        ),
        ("front", CLASS.format("FrontReplacementOp"), "class A does not define the attribute op"),
        (
            "front",
            CLASS.format("FrontReplacementSubgraph"),
            "class A does not define the function pattern",
        ),
        (
            "middle",
            f"{CLASS.format('MiddleReplacementPattern')}    def pattern(self):\n"
            "        return dict(nodes=[('a', dict(op='RELU'))], edges=[])\n",
            "class A does not define the function replace_pattern",
        ),
        (
            "front",
            f"{CLASS.format('FrontReplacementPattern')}    def run_before(self):\n"
            "        return [FrontStart]\n",
            "run_before of transformation 'a' names FrontStart, so the transformation would run outside of its",
        ),
        (
            "front",
            "class A:\n    def replace_pattern(self, graph, match):\n        pass\n",
            "function replace_pattern of class A would never run, because the class has no base class",
        ),
    ],
)
def test_a_class_that_cannot_work_is_an_error(
    tmp_path: Path, part: str, text: str, says: str
) -> None:
    s = Sketch()
    with pytest.raises(LiteRtError) as error:
        transform(tmp_path, s, s("RELU", s.input()), part=part, text=text)
    assert says in error.value.what and error.value.hint and not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("None", "the value must be a dict with the keys 'nodes' and 'edges', but is None"),
        ("dict(nodes=[('a', {})])", "the keys 'nodes' and 'edges', but is {'nodes'"),
        ("dict(nodes=[], edges=[])", "the pattern has no ops"),
        ("dict(nodes=['a'], edges=[])", "the list 'nodes' contains 'a', which is not a pair"),
        ("dict(nodes=[('a', {}), ('a', {})], edges=[])", "two nodes with the name 'a'"),
        (
            "dict(nodes=[('a', {})], edges=['a'])",
            "the list 'edges' contains 'a', which is not an edge",
        ),
        (
            "dict(nodes=[('ab', {})], edges=[('ab', 'abc')])",
            "contains 'abc', but the list 'nodes' has no node of",
        ),
        ("dict(nodes=[('a', {})], edges=[('a', 'a')])", "the edges of the pattern form a cycle"),
        (
            "dict(nodes=[('a', {'kind': 'data'})], edges=[])",
            "the pattern ends with node 'a', but must end with an op",
        ),
        (
            "dict(nodes=[('a', {'op': 'Result'})], edges=[])",
            "the pattern ends with node 'a', but must end with an op",
        ),
        (
            "dict(nodes=[('a', {}), ('b', {})], edges=[('a', 'b', {'at': 0})])",
            "has an unknown attribute: 'at'",
        ),
        (
            "dict(nodes=[('a', {}), ('b', {'kind': 'data'}), ('c', {})], edges=[('a', 'b'), ('c', 'b')])",
            "data node 'b' must have exactly one incoming edge, and this edge must start at an op",
        ),
    ],
)
def test_a_pattern_that_is_none_is_an_error(tmp_path: Path, pattern: str, says: str) -> None:
    s = Sketch()
    text = f"{CLASS.format('FrontReplacementSubgraph')}    def pattern(self):\n        return {pattern}\n"
    with pytest.raises(LiteRtError) as error:
        transform(tmp_path, s, s("RELU", s.input()), text=text)
    assert says in error.value.what and "transformation 'a' of " in error.value.where


def test_a_pattern_may_have_several_last_ops_and_ops_of_any_name() -> None:
    s = Sketch()
    x = s.input()
    halves = s.several("SPLIT", 3, x, outputs=2, name="halves", num_splits=2)
    graph = s.graph(s("NEG", halves[0], name="neg"), s("ABS", halves[1], name="abs"))
    pattern = read_edge_pattern(
        {
            "nodes": [
                ("in", dict(op="Parameter")),
                ("split", dict(op="SPLIT", num_splits=2)),
                ("first", dict(op=lambda op: op != "ABS")),
                ("second", {}),
            ],
            "edges": [
                ("in", "split", 1),
                ("split", "first", {"out": 0}),
                ("split", "second", {"out": 1, "in": 0}),
            ],
        }
    )
    (found,) = pattern.find_matches(graph)
    assert [found[name].name for name in ("in", "first", "second")] == ["x", "neg", "abs"]


EXTRACTOR = f"""
from compiler_plugin.transformations import flexbuffer_options

{IMPORT}FrontExtractorOp, Node, Op


class ClipExtractor(FrontExtractorOp):
    op = "Clip"
    enabled = True

    @classmethod
    def extract(cls, node: Node):
        Op.update_node_stat(node, {{"high": flexbuffer_options(node)["limit"], "own": 3}})
        return cls.enabled
"""


def test_an_extractor_is_a_class_method_as_there(tmp_path: Path) -> None:
    (tmp_path / "front" / "tflite").mkdir(parents=True)
    (tmp_path / "front" / "tflite" / "clip_extractor.py").write_text(EXTRACTOR)
    s = Sketch()
    s.builder.output(s("Clip", s.input(), limit=6))
    model = s.builder.build()
    with edit_model(model, [str(tmp_path)]) as (graph,):
        (node,) = graph.nodes
        assert (node.high, node.own) == (6, 3)
        node.own = 4
    (op,) = model.ops()
    assert flexbuffer(op.custom_options) == {"high": 6, "own": 4}


def test_in_and_out_ports_of_the_guide_s_pack_are_walked_by_number(tmp_path: Path) -> None:
    text = f"""
    {IMPORT}(
        Concatenation as Concat, ExpandDims as Unsqueeze, FrontReplacementOp, Graph, Node,
        create_op_with_const_inputs, int32_array as int64_array, rename_nodes,
    )


    class Pack(FrontReplacementOp):
        op = "PACK"
        enabled = True

        def replace_op(self, graph: Graph, node: Node):
            out_node = Concat(graph, {{'axis': node.axis, 'in_ports_count': len(node.in_ports())}}).create_node()
            pack_name = node.soft_get('name', node.id)
            for ind in node.in_ports():
                unsqueeze_node = create_op_with_const_inputs(
                    graph, Unsqueeze, {{1: int64_array([node.axis])}},
                    {{'name': node.soft_get('name', node.id) + '/Unsqueeze'}},
                )
                node.in_port(ind).get_connection().set_destination(unsqueeze_node.in_port(0))
                unsqueeze_node.out_port(0).connect(out_node.in_port(ind))
            rename_nodes([(node, pack_name + '/TBR'), (out_node, pack_name)])
            return [out_node.id]
    """
    s = Sketch()
    x, y = s.input(), s.input("y")
    packed = s.builder.op(
        "PACK", [x, y], [("packed", "float32", (1, 2, *SHAPE[1:]))], axis=1, values_count=2
    )
    names = transform(tmp_path, s, packed, text=text)
    assert names == ["EXPAND_DIMS", "EXPAND_DIMS", "CONCATENATION"]


@pytest.mark.parametrize("base", ["Front", "Middle", "Back"])
def test_a_class_may_do_all_of_its_work_itself(tmp_path: Path, base: str) -> None:
    text = f"""
    {IMPORT}{base}ReplacementPattern as Base, Graph, Relu6, {base}Start as Start

    class ReluToRelu6(Base):
        force_shape_inference = True

        def run_after(self):
            return [Start]

        def find_and_replace_pattern(self, graph: Graph):
            for node in graph.get_op_nodes(op="RELU"):
                relu = Relu6(graph, dict(name="new")).create_node([node.in_port(0).get_source()])
                node.out_port(0).get_connection().set_source(relu.out_port(0))
    """
    s = Sketch()
    result = s("RELU", s.input(), name="result")
    assert transform(tmp_path, s, result, part=base.lower(), text=text) == ["RELU6"]


def test_dictionaries_say_which_edges_a_generated_sub_graph_has(tmp_path: Path) -> None:
    text = f"""
    {IMPORT}FrontReplacementSubgraph, Graph, Mul, Sub

    class Squares(FrontReplacementSubgraph):
        def pattern(self):
            return dict(nodes=[("square", dict(op="SQUARED_DIFFERENCE"))], edges=[])

        def generate_sub_graph(self, graph: Graph, match: dict):
            sub = Sub(graph, dict(name="sub")).create_node()
            return dict(sub=sub, mul=Mul(graph, dict(name="mul")).create_node([sub, sub]))

        def input_edges_match(self, graph: Graph, match: dict, new_sub_graph: dict):
            old, new = match["square"], new_sub_graph["sub"]
            return {{(old.id, 1): (new.id, 1), (old, 0): (new, 0)}}

        def output_edges_match(self, graph: Graph, match: dict, new_sub_graph: dict):
            return {{match["square"].id: new_sub_graph["mul"].id}}
    """
    s = Sketch()
    result = s("SQUARED_DIFFERENCE", s.input(), s.input("y"), name="result")
    assert transform(tmp_path, s, result, text=text) == ["SUB", "MUL"]


def test_an_op_of_another_framework_s_name_is_noted(tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "front"
    folder.mkdir(parents=True)
    text = "class A(FrontReplacementOp):\n    op = 'LeakyRelu'\n"
    (folder / "a.py").write_text(f"{IMPORT}FrontReplacementOp\n{text}")
    s = Sketch()
    s.builder.output(s("NEG", s.input()))
    write_model(s.builder.build(), tmp_path / "in.tflite")
    report = transform_file(tmp_path / "in.tflite", "", TransformOptions([str(folder.parent)]))
    (warning,) = report.warnings
    assert (
        "transformation 'a' searches for op LeakyRelu, but the model has no such op; in TFLite, the op's "
        "name is LEAKY_RELU" in warning
    )


SQUEEZE = f"""
import logging as log

{IMPORT}Const, Error, FrontReplacementPattern, Graph, int32_array as int64_array


class SqueezeNormalize(FrontReplacementPattern):
    enabled = True

    def find_and_replace_pattern(self, graph: Graph):
        for squeeze_node in graph.get_op_nodes(op='Squeeze'):
            if len(squeeze_node.in_nodes()) == 1 and squeeze_node.has_valid('squeeze_dims'):
                dims_node = Const(graph, {{'name': squeeze_node.id + '/Dims',
                                          'value': int64_array(squeeze_node.squeeze_dims)}}).create_node()
                squeeze_node.in_port(1).connect(dims_node.out_port(0))
                del squeeze_node['squeeze_dims']
            elif len(squeeze_node.in_nodes()) == 2:
                log.debug('The Squeeze node "{{}}" is already normalized'.format(squeeze_node.name))
            else:
                raise Error('The Squeeze layer "{{}}" should either have 2 inputs or one input and an '
                            '"squeeze_dims" attribute'.format(squeeze_node.soft_get('name')))
"""
SQUEEZE_OP = f"""
{IMPORT}Graph, Node, Op


class Squeeze(Op):
    op = "Squeeze"

    def __init__(self, graph: Graph, attrs: dict):
        super().__init__(graph, dict(in_ports_count=2, out_ports_count=1), attrs)

    def backend_attrs(self):
        return []

    @staticmethod
    def infer(node: Node):
        assert not node.in_port(1).disconnected()
        node.out_port(0).data.set_shape(node.in_port(0).data.get_shape()[1:])
"""


def test_the_ports_that_a_class_counts_are_there_on_an_op_of_the_model(tmp_path: Path) -> None:
    for part, text in [("front", SQUEEZE), ("ops", SQUEEZE_OP)]:
        (tmp_path / "mine" / part).mkdir(parents=True)
        (tmp_path / "mine" / part / "squeeze.py").write_text(text)
    s = Sketch()
    s.builder.output(s("Squeeze", s.input(), name="y", squeeze_dims=[0]))
    write_model(s.builder.build(), tmp_path / "in.tflite")
    options = TransformOptions([str(tmp_path / "mine")])
    transform_file(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    transform_file(tmp_path / "out.tflite", "", options)  # already normalized here
    with read_model(tmp_path / "out.tflite") as model:
        (op,) = model.ops()
        assert [tensor and tensor.name for tensor in op.inputs] == ["x", "y/Dims"]
        assert op.outputs[0].shape == SHAPE[1:]
        assert flexbuffer(op.custom_options) == {}


def test_a_port_that_is_only_counted_reads_nothing_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "squeeze.py").write_text(SQUEEZE_OP.replace("assert not ", ""))
    s = Sketch()
    s.builder.output(s("Squeeze", s.input()))
    model = s.builder.build()
    with edit_model(model, [str(tmp_path)]) as (graph,):
        (node,) = graph.nodes
        assert list(node.in_ports()) == [0, 1] and node.in_nodes().keys() == {0}
        port = node.in_port(1)
        assert port.disconnected() and port.get_connection().get_source() is None
        port.disconnect()
        with pytest.raises(LiteRtError, match=r"input 1 of Squeeze '.*' is not connected"):
            node.in_node(1)
        edits = graph.edit_count
    assert edits == graph.edit_count and len(next(model.ops()).inputs) == 1


@pytest.mark.parametrize("seed", range(40))
def test_a_part_of_a_random_graph_is_found_where_it_is(seed: int) -> None:
    r = Random(seed)
    s = Sketch()
    tensors = [s.input(), s.input("y")]
    for i in range(12):
        op, count = r.choice([("ADD", 2), ("SUB", 2), ("NEG", 1), ("ABS", 1)])
        tensors.append(s(op, *r.choices(tensors[-5:], k=count), name=f"n{i}"))
    graph = s.graph(tensors[-1])
    root = r.choice(graph.nodes)
    part, waiting = [root], [root]
    while waiting and len(part) < 6:
        for port in waiting.pop().in_ports().values():
            source = port.get_source()
            if source and source.node.is_op and source.node not in part and r.random() < 0.7:
                part.append(source.node)
                waiting.append(source.node)
    edges = [
        (port.get_source().node.name, node.name, {"in": port.idx} if r.random() < 0.5 else {})  # type: ignore[union-attr]
        for node in part
        for port in node.in_ports().values()
        if port.get_source() and port.get_source().node in part  # type: ignore[union-attr]
    ]
    r.shuffle(edges)
    nodes = [(node.name, {"op": node.op}) for node in part]
    found = list(read_edge_pattern({"nodes": nodes, "edges": edges}).find_matches(graph))
    assert root in [match[root.name] for match in found]
    for match in found:
        assert len(set(map(id, match.values()))) == len(part)
        for name, attributes in nodes:
            assert match[name].op == attributes["op"]  # type: ignore[union-attr]
        for source_name, reader, ports in edges:
            read = match[reader].in_nodes()
            readers = [i for i, data in read.items() if data.in_node() is match[source_name]]
            assert ports.get("in", readers[0]) in readers
