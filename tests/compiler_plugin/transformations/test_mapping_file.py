"""Tests the mapping file, which declares ops with shape formulas, and its published schema."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]

from compiler_plugin.transformations import Graph, OpLibrary
from compiler_plugin.transformations.custom_ops import write_attributes
from compiler_plugin.transformations.mapping_file import read_mapping_file
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.custom_options import find_flexbuffer_options

SCHEMA = json.loads(
    resources.files("compiler_plugin.transformations").joinpath("ops_mapping.schema.json").read_text()
)  # fmt: skip
LAYERS = json.loads(
    resources.files("vendor_reference.custom_layers")
    .joinpath("custom_layer.schema.json")
    .read_text()
)
OPTIONS = bytes(flexbuffers.Dumps({"type": "nearest", "scale": 2}))


def written(folder: Path, value: object) -> Path:
    path = folder / "ops.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def file_of(**op: Any) -> dict[str, Any]:
    return {"version": 1, "ops": [{"op": "Upscale", **op}]}


def make_graph(path: Path, batch: int = 1, outputs: int = 1) -> Graph:
    """Builds a model in which Upscale reads an image and a vector of weights, and RELU reads Upscale."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 6, 3), shape_signature=(batch, 4, 6, 3))
    w = b.input("w", "int8", (5,))
    made = [(f"y{i}", "float32", (1, 1)) for i in range(outputs)]
    y = b.custom("Upscale", [x, w, None], made, options=OPTIONS)
    first = y[0] if outputs > 1 else y
    b.output(b.op("RELU", [first], [("z", "float32", (1, 1))]))
    model = b.build()
    subgraph = model.subgraphs[0]
    library = OpLibrary(mapping=read_mapping_file(path))
    return Graph(model, subgraph, PartialInference(subgraph), ops=library)


@pytest.mark.parametrize(
    ("batch", "shape"), [(1, (1, 8, 12, 9, 5)), (-1, (-1, 8, 12, 9, 5))], ids=["fixed", "any batch"]
)
def test_shapes_are_found_by_formula(tmp_path: Path, batch: int, shape: tuple[int, ...]) -> None:
    formulas = ["B", "INPUT0_SHAPE[1]*2", "X*2", "(F+Y)/2+6", "INPUT1_SHAPE[0]"]
    graph = make_graph(written(tmp_path, file_of(output_shapes=[formulas])), batch)
    assert graph.nodes[0].out_port(0).data.get_shape() == shape
    assert graph.nodes[1].out_port(0).data.get_shape() == shape


def test_an_unknown_dimension_stays_unknown_only_where_it_counts(tmp_path: Path) -> None:
    graph = make_graph(written(tmp_path, file_of(output_shapes=[["B*X+1", "B*0", 7]])), -1)
    assert graph.nodes[0].out_port(0).data.get_shape() == (-1, 0, 7)


def test_a_shape_can_be_that_of_an_input_or_as_in_the_model(tmp_path: Path) -> None:
    shapes = [{"input": 1}, None, {"input": 0}]
    graph = make_graph(written(tmp_path, file_of(output_shapes=shapes)), outputs=4)
    found = [port.data.get_shape() for port in graph.nodes[0].out_ports().values()]
    assert found == [(5,), (1, 1), (1, 4, 6, 3), (1, 1)]


def test_types_are_declared(tmp_path: Path) -> None:
    types = ["int16", {"input": 1}, None]
    graph = make_graph(written(tmp_path, file_of(output_types=types)), outputs=4)
    graph.infer()
    assert [port.get_data_type() for port in graph.nodes[0].out_ports().values()] == [
        ElementType.INT16, ElementType.INT8, ElementType.FLOAT32, ElementType.FLOAT32,
    ]  # fmt: skip


def test_all_parameters_or_none_are_attributes(tmp_path: Path) -> None:
    for op in ({}, {"parameters": "all"}):
        node = make_graph(written(tmp_path, file_of(**op))).nodes[0]
        assert node.attributes() == {"scale": 2, "type": "nearest"}
        assert node.type == "Upscale"  # although a parameter is called `type`
        write_attributes(node)
        assert bytes(node.custom_options) == OPTIONS
        node.scale = 3
        write_attributes(node)
        assert find_flexbuffer_options(node.custom_options) == {"scale": 3, "type": "nearest"}
    node = make_graph(written(tmp_path, file_of(parameters="none"))).nodes[0]
    assert node.attributes() == {}
    node.scale = 3
    write_attributes(node)
    assert bytes(node.custom_options) == OPTIONS


def test_an_op_that_is_declared_without_shapes_keeps_those_of_the_model(tmp_path: Path) -> None:
    graph = make_graph(written(tmp_path, file_of()))
    graph.infer()
    assert graph.nodes[0].out_port(0).data.get_shape() == (1, 1)


@pytest.mark.parametrize(
    ("op", "says"),
    [
        ({"output_shapes": [{"input": 2}]}, "the shape of input 2, but the op has no input 2"),
        (
            {"output_shapes": [["INPUT1_SHAPE[3]"]]},
            "uses INPUT1_SHAPE[3], but input 1 has only 1 dimension: [5]",
        ),
        ({"output_shapes": [["Y-6"]]}, "formula 'Y-6' has the value -2 for B=1, F=3, Y=4, X=6"),
        (
            {"output_shapes": [[1], [1]]},
            "output_shapes describes 2 outputs, but the op has 1 output",
        ),
        (
            {"output_types": ["int8", "int8"]},
            "output_types describes 2 outputs, but the op has 1 output",
        ),
        (
            {"output_types": [{"input": 2}]},
            "the type of input 2, but Upscale 'y0' has no connected input 2",
        ),
    ],
)
def test_what_the_op_has_not_is_an_error_with_op_and_file(
    op: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = written(tmp_path, file_of(**op))
    graph = make_graph(path)
    with pytest.raises(LiteRtError) as error:
        graph.infer()
    assert says in error.value.what
    name = "infer" if "output_shapes" in op else "type_infer"
    assert error.value.where == f"Upscale.{name} of {path}, $.ops[0], op Upscale 'y0'"


def test_a_size_that_only_a_run_tells_is_a_question_mark_in_errors(tmp_path: Path) -> None:
    graph = make_graph(written(tmp_path, file_of(output_shapes=[["INPUT0_SHAPE[7]"]])), -1)
    with pytest.raises(LiteRtError, match=r"has only 4 dimensions: \[\?, 4, 6, 3\]"):
        graph.infer()


WRONG = [
    ({"ops": []}, "at the top level, field 'version' is missing"),
    ({"version": 2, "ops": []}, "$.version: the value is 2, but must be 1"),
    ({"version": 1}, "at the top level, field 'ops' is missing"),
    ({"version": 1, "ops": {}}, "$.ops: {} is not an array"),
    ({"version": 1, "ops": [], "opps": 1}, "unknown field 'opps'"),
    ({"version": 1, "ops": [{}]}, "$.ops[0]: field 'op' is missing"),
    ({"version": 1, "ops": [{"op": ""}]}, "$.ops[0].op: the op's name is empty"),
    ({"version": 1, "ops": [{"op": 3}]}, "$.ops[0].op: 3 is not a string"),
    (file_of(parameters="some"), "parameters: unknown value 'some'"),
    (file_of(params="all"), "unknown field 'params'"),
    (file_of(output_shapes=[]), "output_shapes: the array has 0 elements"),
    (file_of(output_shapes=["B"]), "output_shapes[0]: \"B\" is not an object"),
    (file_of(output_shapes=[[]]), "output_shapes[0]: the array has 0 elements"),
    (file_of(output_shapes=[["Z"]]), "output_shapes[0][0]: formula 'Z'"),
    (file_of(output_shapes=[[1.5]]), "1.5 is not a whole number"),
    (file_of(output_shapes=[["OUTPUT0_SHAPE[0]"]]), "the formula uses an output's shape"),
    (file_of(output_shapes=[{"input": -1}]), "-1 is not in the range 0"),
    (file_of(output_shapes=[{"output": 0}]), "unknown field 'output'"),
    (file_of(output_types=["float"]), "output_types[0]: unknown value 'float'"),
    (file_of(output_types=[7]), "output_types[0]: 7 is not an object"),
    (file_of(description=1), "description: 1 is not a string"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "says"), WRONG, ids=[says for _, says in WRONG])
def test_reader_and_schema_refuse_the_same(value: object, says: str, tmp_path: Path) -> None:
    path = written(tmp_path, value)
    with pytest.raises(LiteRtError) as error:
        read_mapping_file(path)
    assert says in error.value.what and error.value.where == str(path)
    assert error.value.status is Status.INVALID_ARGUMENT
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, SCHEMA)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "the text is not JSON"),
        ("", "the text is not JSON"),
        ('{"version": 1, "version": 1}', "'version' occurs twice"),
        (json.dumps({"version": 1, "ops": [{"op": "A"}, {"op": "A"}]}), "'A' is declared twice"),
        (json.dumps({"version": 1, "ops": [{"op": "CONV_2D"}]}), "'CONV_2D' is a builtin operator"),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(LiteRtError, match=says):
        read_mapping_file(written(tmp_path, text))


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        read_mapping_file(tmp_path / "none.json")
    assert error.value.status is Status.NOT_FOUND


def test_the_example_of_the_documentation_is_in_the_schema(tmp_path: Path) -> None:
    import compiler_plugin.transformations.mapping_file as module

    assert module.__doc__
    start, end = module.__doc__.index("{"), module.__doc__.rindex("}") + 1
    example = json.loads(module.__doc__[start:end])
    jsonschema.validate(example, SCHEMA)
    found = read_mapping_file(written(tmp_path, example))
    assert list(found) == ["Upscale", "Gate"] and not found["Gate"].has_parameters


def test_types_and_formulas_of_the_schema_are_those_of_the_reader() -> None:
    types = SCHEMA["$defs"]["output_type"]["anyOf"][2]["enum"]
    assert types == [t.name.lower() for t in ElementType if t is not ElementType.NONE]
    ours, layers = (s["$defs"]["formula"]["anyOf"] for s in (SCHEMA, LAYERS))
    assert ours[0] == layers[0]
    assert ours[1]["pattern"] == layers[1]["pattern"].replace("(INPUT|OUTPUT)", "INPUT")
