"""Tests the back phase in partitions of a vendor that requests NCHW."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from compiler_plugin.commands import compile_model
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from compiler_plugin.transformations import TransformOptions
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model

VENDORS = Path(__file__).parent / "layout_change" / "vendors"
BACK = """
    from compiler_plugin.transformations import Transformation

    class InPlanes(Transformation):
        graph_condition = [lambda graph: graph.layout == "NCHW"]

        def find_and_replace_pattern(self, graph):
            assert graph.stage.value == "back"
            (conv,) = graph.get_op_nodes(op="CONV_2D")
            assert conv.out_port(0).data.get_shape() == (1, 4, 6, 5), "channels first"
            conv.fused_activation_function = "RELU"
            (relu,) = graph.get_op_nodes(op="ABS")
            neg = graph.create_op("NEG", [relu.in_port(0).get_source()])
            graph.replace_node(relu, neg)
            assert neg.out_port(0).data.get_shape() == (1, 4, 6, 5)

    class Everywhere(Transformation):
        def find_and_replace_pattern(self, graph):
            return 1
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 6, 5, 3))
    weights = builder.constant("w", [[[[0.5] * 3]]] * 4, "float32")
    bias = builder.constant("b", [0.0] * 4, "float32")
    conv = builder.op(
        "CONV_2D", [x, weights, bias], [("c", "float32", (1, 6, 5, 4))], stride_w=1, stride_h=1
    )
    builder.output(builder.op("ABS", [conv], [("y", "float32", (1, 6, 5, 4))]))
    write_model(builder.build(), tmp_path / "in.tflite")
    return tmp_path / "in.tflite"


def planes(source: Path, text: str, keep_layout: bool = False) -> ApplyOptions:
    folder = source.parent / "mine"
    (folder / "back").mkdir(parents=True)
    (folder / "back" / "planes.py").write_text(dedent(text))
    return ApplyOptions(
        "Planes",
        libs=[str(VENDORS)],
        compiler=CompilerOptions(vendor_options={"planes_ops": "CONV_2D,ABS"}),
        transform=TransformOptions([str(folder)], keep_layout=keep_layout),
    )


def compile_planes(source: Path, text: str, keep_layout: bool = False) -> tuple[Report, Model]:
    target = source.parent / "out.bin"
    report = apply_plugin(source, target, planes(source, text, keep_layout))
    with read_model(target) as compiled:
        (module,) = compiled.byte_code
        return report, read_model(bytes(module.blob))


def test_the_back_phase_runs_in_the_partition_in_its_layout(source: Path) -> None:
    report, module = compile_planes(source, BACK)
    assert {item.name: item.matches for item in report.transformations} == {
        "in_planes": 1,
        "everywhere": 2,
    }
    names = [op.name for op in module.ops()]
    assert "NEG" in names and "ABS" not in names
    (conv,) = (op for op in module.ops() if op.name == "CONV_2D")
    assert conv.outputs[0].shape == (1, 4, 6, 5)


def test_whole_subgraphs_are_brought_into_that_layout_too(source: Path) -> None:
    target = source.parent / "out.bin"
    report = compile_model(source, target, planes(source, BACK))
    assert {item.name: item.matches for item in report.transformations} == {
        "in_planes": 1,
        "everywhere": 2,
    }
    assert any("in NCHW" in note for note in report.notes)
    with read_model(target) as module:
        assert "NEG" in [op.name for op in module.ops()]


def test_with_the_layout_kept_it_runs_on_the_whole_alone(source: Path) -> None:
    report, module = compile_planes(source, BACK, keep_layout=True)
    assert {item.name: item.matches for item in report.transformations} == {
        "in_planes": 0,
        "everywhere": 1,
    }
    assert [op.name for op in module.ops()] == ["CONV_2D", "ABS"]


def test_a_crash_in_a_partition_names_the_transformation(source: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        compile_planes(
            source, BACK.replace('"channels first"', "1 / 0").replace("(1, 4, 6, 5),", "0,")
        )
    assert (
        "transformation 'in_planes' of" in error.value.where and "planes.py:10" in error.value.where
    )
