"""Tests a user's own op from an extension folder to a run: shapes, types, options and kernel."""

from __future__ import annotations

import struct
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import tflite
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers  # type: ignore[import-untyped]

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.transformations import TransformOptions
from compiler_plugin.transforming import transform_file
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model

pytestmark = pytest.mark.each_driver

EXTENSION = {
    "ops/gain.py": """
        from compiler_plugin.transformations import Op

        class Gain(Op):
            op = "Gain"

            def __init__(self, graph, attrs):
                defaults = {"infer": Gain.infer, "factor": 1.0, "shift": 0.0, "note": None}
                super().__init__(graph, {**defaults, "in_ports_count": 1, "out_ports_count": 1}, attrs)

            def backend_attrs(self):
                return ["factor", ("offset", "shift"), ("is_odd", lambda node: node.shift == 0), "note"]

            @staticmethod
            def infer(node):
                node.out_port(0).data.set_shape(node.in_port(0).data.get_shape())
        """,
    "front/tflite/gain_extractor.py": """
        from compiler_plugin.transformations import Extractor, raw_fields, raw_options
        from ...ops.gain import Gain

        class GainExtractor(Extractor):
            op = "acme.Gain.v2"
            enabled = True

            def extract(self, node):
                found = raw_options(node, raw_fields(("mode", "uint8"), ("factor", "float32")))
                Gain.update_node_stat(node, {"factor": found["factor"] if found["mode"] else 1.0})
                return self.enabled
        """,
    "middle/add_to_gain.py": """
        from compiler_plugin.transformations import Const, Match, PatternReplacement
        from ..ops.gain import Gain

        class AddToGain(PatternReplacement):
            pattern = Match("ADD", Match("Gain", name="gain", uses=1), Const(name="c", shape=()), name="add")

            def rewrite(self, graph, add, gain, c):
                attrs = {"factor": gain.factor, "shift": gain.shift + float(c.out_port(0).data.get_value())}
                node = Gain(graph, attrs).create_node_with_data([gain.in_port(0).get_source()])
                assert node.out_port(0).data.get_shape() == (-1, 6)
                return node
        """,
}
KERNEL = """
__kernel void Gain(__global const float* x, __global float* y) {
    y[get_global_id(0)] = x[get_global_id(0)] * PARAM_factor + PARAM_offset + 100 * PARAM_is_odd;
}
"""


@pytest.fixture
def transform(tmp_path: Path) -> TransformOptions:
    for name, text in EXTENSION.items():
        path = tmp_path / "ext" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return TransformOptions(extensions=[str(tmp_path / "ext")])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model with two such ops; as from a converter, the file lacks their shapes."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 6), shape_signature=(-1, 6))
    options = struct.pack("<B3xf", 1, 2.5)
    first = b.custom("acme.Gain.v2", [x], [("first", "float32", ())], options=options)
    made = b.tensor("sum", "float32", (1, 6), shape_signature=(-1, 6))
    total = b.op("ADD", [first, b.constant("c", np.float32(0.25))], [made])
    last = b.custom("acme.Gain.v2", [total], [("y", "float32", ())], options=options)
    b.output(last)
    path = tmp_path / "in.tflite"
    write_model(b.build(), path)
    return path


def test_the_result_is_a_tflite_model(
    source: Path, transform: TransformOptions, tmp_path: Path
) -> None:
    transform_file(source, tmp_path / "out.tflite", transform)
    data = (tmp_path / "out.tflite").read_bytes()
    graph = tflite.Model.GetRootAs(data).Subgraphs(0)
    assert graph.OperatorsLength() == 2
    tensors = {graph.Tensors(i).Name(): graph.Tensors(i) for i in range(graph.TensorsLength())}
    assert sorted(tensors) == [b"sum", b"x", b"y"]
    for tensor in tensors.values():
        assert tensor.ShapeSignatureAsNumpy().tolist() == [-1, 6]
        assert tensor.Type() == tflite.TensorType.FLOAT32
    found = [
        flexbuffers.Loads(graph.Operators(i).CustomOptionsAsNumpy().tobytes()) for i in range(2)
    ]
    assert found == [
        {"factor": 2.5, "offset": 0.25, "is_odd": False},
        {"factor": 2.5, "offset": 0.0, "is_odd": True},
    ]
    with pytest.raises(RuntimeError, match="unresolved custom op: Gain"):
        Interpreter(model_content=data).allocate_tensors()


def test_a_kernel_gets_the_options_that_were_written(
    source: Path, transform: TransformOptions, tmp_path: Path
) -> None:
    (tmp_path / "Gain.cl").write_text(KERNEL)
    report = apply_plugin(
        source,
        tmp_path / "out.tflite",
        ApplyOptions(
            require_npu=["Gain"],
            compiler=CompilerOptions(
                [CustomOpInfo("Gain", str(tmp_path / "Gain.cl"))], shape_bounds={"x": (8, 6)}
            ),
            transform=transform,
        ),
    )
    assert [(item.name, item.matches) for item in report.transformations] == [("add_to_gain", 1)]
    model = CompiledModel.from_file(str(tmp_path / "out.tflite"))
    for batch in (1, 8, 3):
        x = np.random.default_rng(batch).normal(size=(batch, 6)).astype(np.float32)
        y = model.run({"x": x})["y"]
        assert np.allclose(y, (x * 2.5 + 0.25) * 2.5 + 100, atol=1e-4)


def test_an_op_that_no_transformation_replaces_must_have_a_type(
    source: Path, transform: TransformOptions, tmp_path: Path
) -> None:
    path = tmp_path / "ext" / "ops" / "gain.py"
    path.write_text(path.read_text().replace("defaults = {", 'defaults = {"type": None, '))
    with pytest.raises(LiteRtError) as error:
        transform_file(source, tmp_path / "out.tflite", transform)
    assert "its type is None, and no transformation has replaced it" in error.value.what
    assert not (tmp_path / "out.tflite").exists()


def test_a_mapping_file_is_enough_for_shapes(source: Path, tmp_path: Path) -> None:
    (tmp_path / "ops.json").write_text(
        '{"version": 1, "ops": [{"op": "acme.Gain.v2", "output_shapes": [["B", "F"]]}]}'
    )
    options = TransformOptions(ops_mapping=str(tmp_path / "ops.json"))
    transform_file(source, tmp_path / "out.tflite", options)
    with read_model(tmp_path / "out.tflite") as model, read_model(source) as before:
        shapes = [tensor.shape_signature for op in model.ops() for tensor in op.outputs]
        assert shapes == [(-1, 6)] * 3
        for op, old in zip(model.ops(), before.ops(), strict=True):
            assert bytes(op.custom_options or b"") == bytes(old.custom_options or b"")
