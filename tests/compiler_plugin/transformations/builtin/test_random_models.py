"""Tests the built-in transformations on random models: stock LiteRT's outputs and their names stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import HealthCheck, given, settings

from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transformations.clean_up import emit, tidy
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.partial_inference import PartialInference
from compiler_plugin.transformations.running import Transformations
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import to_bytes
from tests.compiler_plugin.transformations.builtin.random_models import RandomFile, models
from tests.compiler_plugin.transformations.builtin.rewrites import TOLERANCE, transform

SHRINKING = (
    "fold_batch_norm", "fold_constants", "fold_dequantize", "fuse_activation", "fuse_hard_swish",
    "fuse_pad", "merge_equal_ops", "remove_no_ops",
)  # fmt: skip
GROWING = ("decompose_gelu", "decompose_hard_swish", "decompose_prelu", "split_fully_connected")

PLAIN = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
"""The op resolver without XNNPACK. XNNPACK lets the result of a RESHAPE share memory with its input and overwrites
it in place, although other ops still read it. `test_networks.py` uses XNNPACK on real networks."""

SELECTIONS: dict[str, tuple[str, ...]] = {
    name: (name,) for name in (*SHRINKING, *GROWING, "fuse_swish", "all")
}
SELECTIONS["all of them"] = ("all", "fuse_swish", *GROWING)


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(data=models())
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
def test_outputs_stay_what_they_were(selection: tuple[str, ...], data: RandomFile) -> None:
    model = read_model(bytes(data))
    transformations = Transformations(TransformOptions(selection=selection))
    for item in transformations.planned:
        if item.name == "split_fully_connected":
            setattr(item.transformation, "max_bytes", 16)  # noqa: B010
    count = len(model.subgraphs[0].ops)
    transformations.run(model)
    if not set(GROWING) & set(selection):
        assert len(model.subgraphs[0].ops) <= count
    spell_out_swish(model)
    result = bytes(to_bytes(model))
    (x,) = model.subgraphs[0].inputs
    for batch in (1, 3) if x.shape_signature else (1,):
        limit = TOLERANCE * largest_magnitude(data, batch)
        expected, found = run(data, batch), run(result, batch)
        assert [name for name, _ in found] == [name for name, _ in expected]
        for (_, before), (_, after) in zip(expected, found, strict=True):
            assert (before.shape, before.dtype) == (after.shape, after.dtype)
            assert np.abs(before - after).max(initial=0.0) <= limit


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(data=models())
def test_a_second_run_finds_nothing(data: RandomFile) -> None:
    model = read_model(bytes(data))
    transform(model, "all")
    again = read_model(bytes(to_bytes(model)))
    matches = transform(again, "all")
    del matches["merge_equal_ops"]  # runs before others make ops equal
    assert not any(matches.values())


def run(data: bytes, batch: int) -> list[tuple[str, Any]]:
    """Runs stock LiteRT; returns the outputs with their names."""
    interpreter = invoke(data, batch)
    outputs = interpreter.get_output_details()
    return [(detail["name"], interpreter.get_tensor(detail["index"])) for detail in outputs]


def largest_magnitude(data: bytes, batch: int) -> float:
    """Returns the largest magnitude of all float values in a model, to which rounding errors are relative."""
    interpreter = invoke(data, batch, experimental_preserve_all_tensors=True)
    floats = [d for d in interpreter.get_tensor_details() if d["dtype"] is np.float32]
    return max(float(np.abs(interpreter.get_tensor(d["index"])).max(initial=0.0)) for d in floats)


def invoke(data: bytes, batch: int, **options: Any) -> Interpreter:
    """Runs a model with one input on random data of the given batch size."""
    interpreter = Interpreter(
        model_content=data, num_threads=1, experimental_op_resolver_type=PLAIN, **options
    )
    detail = interpreter.get_input_details()[0]
    shape = (batch, *detail["shape"][1:])
    interpreter.resize_tensor_input(detail["index"], shape)
    interpreter.allocate_tensors()
    value = np.random.default_rng(0).normal(scale=2, size=shape).astype(np.float32)
    interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return interpreter


def spell_out_swish(model: Model) -> None:
    """Replaces the Swish ops of `fuse_swish`, which stock LiteRT does not have, by builtin ops."""
    graph = Graph(model, model.subgraphs[0], PartialInference(model.subgraphs[0]))

    def spelled(node: Node) -> Node:
        x = node.in_port(0).get_source()
        inner = graph.create_op("MUL", [x, node.beta])
        return graph.create_op("MUL", [x, graph.create_op("LOGISTIC", [inner])])

    for node in graph.get_op_nodes(op="Swish"):
        graph.replace_node(node, spelled(node))
    emit(graph)
    tidy([graph])
