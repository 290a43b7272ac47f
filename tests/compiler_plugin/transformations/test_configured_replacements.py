"""Tests replacements from a configuration file and a folder of extensions, from model file to model file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compiler_plugin.report import Report
from compiler_plugin.transformations import TransformOptions
from compiler_plugin.transforming import transform_file
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.custom_options import find_flexbuffer_options
from litert.model.graph import Op
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.compiler_plugin.transformations.test_sub_graph_replacement import build

DECODER: dict[str, Any] = {
    "id": "TransformerDecoder",
    "match_kind": "scope",
    "instances": ["model/decoder_[0-9]+"],
    "custom_attributes": {"heads": 4},
}

CLASS = '''
from compiler_plugin.transformations import SubgraphReplacement

class ReplaceDecoder(SubgraphReplacement):
    """A decoder becomes one op."""

    replacement_id = "TransformerDecoder"

    def replace_sub_graph(self, graph, match):
        node, port = match.single_input_node(1)
        attributes = {**match.custom_attributes, "first": node.name}
        return graph.create_op("Decoder", match.inputs, attributes, is_custom=True)
'''

OP = """
from compiler_plugin.transformations import Op

class Decoder(Op):
    op = "Decoder"

    def __init__(self, graph, attrs):
        super().__init__(graph, {"infer": Decoder.infer, "layers": 1, "heads": 1}, attrs)

    def backend_attrs(self):
        return ["heads", ("depth", "layers")]

    @staticmethod
    def infer(node):
        node.out_port(0).data.set_shape(node.in_port(0).data.get_shape())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine" / "front").mkdir(parents=True)
    (tmp_path / "mine" / "ops").mkdir()
    return tmp_path / "mine"


def run(
    tmp_path: Path, descriptions: Sequence[dict[str, Any]], folder: Path | None = None
) -> tuple[Report, list[Op]]:
    """Transforms a model of two decoders and a scope `model/other`; returns the report and the new ops."""
    graph = build("model/decoder_0", "model/other", "model/decoder_1")
    write_model(graph.model, tmp_path / "in.tflite")
    (tmp_path / "c.json").write_text(json.dumps(descriptions))
    options = TransformOptions([str(folder)] if folder else [], config=[str(tmp_path / "c.json")])
    report = transform_file(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    with read_model(tmp_path / "out.tflite") as model:
        return report, list(model.ops())


def options_of(op: Op) -> Any:
    assert op.custom_options is not None
    return find_flexbuffer_options(bytes(op.custom_options.view))


def test_a_class_of_a_folder_replaces_what_the_file_describes(tmp_path: Path, folder: Path) -> None:
    (folder / "front" / "decoder.py").write_text(CLASS)
    report, ops = run(tmp_path, [DECODER], folder)
    names = ["TANH", "Decoder", "RELU", "MUL", "LOGISTIC", "MUL", "ADD", "Decoder", "NEG"]
    assert [op.name for op in ops] == names
    assert options_of(ops[1]) == {"heads": 4, "first": "model/decoder_0/add"}
    found = {item.name: item.matches for item in report.transformations}
    assert found["replace_decoder"] == 2 and not report.warnings


def test_with_an_op_the_file_is_enough(tmp_path: Path) -> None:
    report, ops = run(tmp_path, [{**DECODER, "op": "MyDecoder"}])
    assert [op.name for op in ops if op.is_custom] == ["MyDecoder", "MyDecoder"]
    assert options_of(ops[1]) == {"heads": 4}
    (item,) = [item for item in report.transformations if item.path]
    assert (item.name, item.phase, item.matches) == ("transformer_decoder", "front", 2)
    assert item.path == str(tmp_path / "c.json")


def test_the_op_may_be_one_that_the_folder_defines(tmp_path: Path, folder: Path) -> None:
    (folder / "ops" / "decoder.py").write_text(OP)
    _, ops = run(tmp_path, [{**DECODER, "op": "Decoder"}], folder)
    assert options_of(ops[1]) == {"heads": 4, "depth": 1}


def test_the_op_may_be_one_of_the_schema(tmp_path: Path) -> None:
    gate = {
        "id": "gate", "match_kind": "scope", "instances": ["model/other/gate"], "op": "LEAKY_RELU",
        "custom_attributes": {"alpha": 0.25},
    }  # fmt: skip
    _, ops = run(tmp_path, [gate])
    (leaky,) = [op for op in ops if op.name == "LEAKY_RELU"]
    assert leaky.options is not None and leaky.options.get("alpha") == 0.25
    assert leaky.outputs[0].name == "model/other/gate/out"


def test_an_option_that_the_op_does_not_have_is_refused(tmp_path: Path) -> None:
    gate = {**DECODER, "op": "LEAKY_RELU", "custom_attributes": {"heads": 4}}
    with pytest.raises(LiteRtError) as error:
        run(tmp_path, [gate])
    assert "heads" in error.value.what and "transformer_decoder" in error.value.where


def test_what_the_model_does_not_have_is_a_warning(tmp_path: Path) -> None:
    other = {**DECODER, "op": "D", "instances": ["model/decoder_0", "model/encoder"]}
    report, _ = run(tmp_path, [other])
    assert report.warnings == [
        f"{tmp_path / 'c.json'}, $[0]: no op of the model is in scope 'model/encoder'"
    ]


def test_an_id_without_a_class_or_an_op_is_refused(tmp_path: Path, folder: Path) -> None:
    (folder / "front" / "decoder.py").write_text(CLASS)
    with pytest.raises(LiteRtError) as error:
        run(tmp_path, [{**DECODER, "id": "TransformerDecode"}], folder)
    assert error.value.status is Status.NOT_FOUND
    assert "'TransformerDecoder'" in error.value.hint
    assert error.value.where == f"{tmp_path / 'c.json'}, $[0]"


def test_an_id_that_is_another_transformations_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        run(tmp_path, [{**DECODER, "id": "FoldConstants", "op": "Decoder"}])
    assert error.value.status is Status.ALREADY_EXISTS


def test_an_error_of_a_sub_graph_names_transformation_file_and_element(tmp_path: Path) -> None:
    leaking = {**DECODER, "op": "D", "outputs": [{"node": "relu", "port": 0}]}
    with pytest.raises(LiteRtError) as error:
        run(tmp_path, [leaking])
    assert (
        "RELU 'model/other/relu', which is outside of the sub-graph, reads tensor 'model/decoder_0/add'"
        in error.value.what
    )
    assert all(
        part in error.value.where
        for part in ("transformer_decoder", f"{tmp_path / 'c.json'}, $[0]", "model/decoder_0")
    )
    assert not (tmp_path / "out.tflite").exists()
