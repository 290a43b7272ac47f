"""Tests the replacements that the Model Optimizer's guide describes, as extensions: Flatten, TopK and Swish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.transformations import TransformOptions
from compiler_plugin.transforming import transform_file
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model

FLATTEN = '''
"""Flatten becomes a reshape, to a shape that is computed at run time: the model stays resizable."""

from compiler_plugin.transformations import OpReplacement


class FlattenToReshape(OpReplacement):
    """Flatten becomes ops that TFLite has."""

    op = "Flatten"

    def replace_op(self, graph, node):
        name, axis = node.name, node.soft_get("axis", 1)
        source = node.in_port(0).get_source()
        if axis == 0:
            return graph.create_op("RESHAPE", [source, [1, -1]], name=name + "/reshape")
        shape = graph.create_op("SHAPE", [source], {"out_type": "INT32"}, name=name + "/shape")
        first = graph.create_op("SLICE", [shape, [0], [axis]], name=name + "/first")
        if axis > 1:
            first = graph.create_op(
                "REDUCE_PROD", [first, [0]], {"keep_dims": True}, name=name + "/product"
            )
        rows = graph.create_op("CONCATENATION", [first, [-1]], {"axis": 0}, name=name + "/rows")
        return graph.create_op("RESHAPE", [source, rows], name=name + "/reshape")
'''

TOP_K = '''
"""TopK has the number of elements as an attribute; TFLite's reads it from an input."""

from compiler_plugin.transformations import OpReplacement


class TopKNormalize(OpReplacement):
    """The attribute k of TopK becomes an input."""

    op = "TopK"

    def replace_op(self, graph, node):
        k = graph.create_const(node.k, node.name + "/k")
        return graph.create_op("TOPK_V2", [node.in_port(0).get_source(), k], outputs=2)
'''

SWISH = '''
"""x / (1 + exp(-beta * x)) is one op."""

from compiler_plugin.transformations import Any, Const, Match, PatternReplacement


class FuseMySwish(PatternReplacement):
    """A swish that is spelled out becomes one op."""

    pattern = Match(
        "DIV",
        Any("x"),
        Match("ADD", Const(value=1.0), Match("EXP", Match("MUL", Any("x"), Const("beta", shape=())))),
    )

    def rewrite(self, graph, x, beta):
        value = float(beta.out_port(0).data.get_value())
        return graph.create_op("Swish", [x], {"beta": -value}, is_custom=True)
'''


def transform(model: Model, source: str, phase: str, tmp_path: Path) -> Path:
    folder = tmp_path / "mine" / phase
    folder.mkdir(parents=True)
    (folder / "replacement.py").write_text(source)
    write_model(model, tmp_path / "in.tflite")
    options = TransformOptions([str(tmp_path / "mine")])
    report = transform_file(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    assert [item.matches for item in report.transformations if item.path] == [1]
    return tmp_path / "out.tflite"


def run(path: Path, *shapes: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Runs stock LiteRT on a random input of each shape; returns the last input and its outputs."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    for shape in shapes:
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        value = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        interpreter.set_tensor(0, value)
        interpreter.invoke()
    outputs = interpreter.get_output_details()
    return value, [interpreter.get_tensor(detail["index"]) for detail in outputs]


@pytest.mark.parametrize("phase", ["front", "middle"])
@pytest.mark.parametrize("axis", range(4))
def test_flatten_becomes_ops_of_tflite_and_the_model_stays_resizable(
    tmp_path: Path, axis: int, phase: str
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3, 4, 5), shape_signature=(-1, 3, -1, 5))
    rows = int(np.prod((2, 3, 4, 5)[:axis]))
    y = b.custom("Flatten", [x], [("y", "float32", (rows, 120 // rows))], options={"axis": axis})
    b.output(b.op("NEG", [y], [("z", "float32", (rows, 120 // rows))]))
    path = transform(b.build(), FLATTEN, phase, tmp_path)
    for shape in ((2, 3, 4, 5), (4, 3, 7, 5)):
        value, (result,) = run(path, (2, 3, 4, 5), shape)
        assert np.array_equal(result, -value.reshape(int(np.prod(shape[:axis])), -1))


def test_an_attribute_becomes_an_input(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 8))
    types = [("values", "float32", (2, 3)), ("indices", "int32", (2, 3))]
    b.output(*b.custom("TopK", [x], types, options={"k": 3}))
    path = transform(b.build(), TOP_K, "front", tmp_path)
    value, (values, indices) = run(path, (2, 8))
    assert np.array_equal(values, -np.sort(-value)[:, :3])
    assert np.array_equal(indices, np.argsort(-value)[:, :3])
    with read_model(path) as model:
        names = [tensor.name for tensor in model.subgraphs[0].outputs]
    assert names == ["values", "indices"]


def test_a_swish_that_is_spelled_out_becomes_one_op(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 8))

    def op(name: str, *inputs: Any) -> Any:
        return b.op(name, inputs, [(name.lower(), "float32", (2, 8))])

    scaled = op("MUL", b.constant("beta", np.float32(-1.5)), x)
    y = op("DIV", x, op("ADD", op("EXP", scaled), b.constant("one", np.float32(1))))
    b.output(y)
    with read_model(transform(b.build(), SWISH, "front", tmp_path)) as model:
        (swish,) = model.ops()
        assert swish.name == "Swish" and swish.outputs[0].name == "div"
        assert [tensor.name for tensor in model.subgraphs[0].tensors] == ["x", "div"]
