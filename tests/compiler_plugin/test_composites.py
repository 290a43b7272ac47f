"""Tests that composites go to the NPU whole or in parts, and otherwise stay unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin import composites as module
from compiler_plugin.commands import partition_model
from compiler_plugin.composites import OpenComposites, find_unused
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.composite import read_composite
from litert.model.graph import Model
from litert.model.positions import (
    CONTROL_DEPENDENCIES_KEY,
    read_control_dependencies,
    set_control_dependencies,
)
from litert.model.reader import read_model
from litert.model.writer import to_bytes, write_model
from tests.compiler_plugin.composite_models import (
    F32,
    MODELS,
    angles,
    between_sums,
    composite,
    rms_norm,
    twice_less_once,
    within,
)

Options = Callable[..., ApplyOptions]
X = np.random.default_rng(3).uniform(0.5, 2, (1, 8)).astype(np.float32)


def run(data: bytes) -> list[npt.NDArray[Any]]:
    """Runs a model on input X in stock's interpreter; returns the outputs."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    loaded = interpreter.Interpreter(model_content=data)
    loaded.allocate_tensors()
    loaded.set_tensor(loaded.get_input_details()[0]["index"], X)
    loaded.invoke()
    return [loaded.get_tensor(output["index"]) for output in loaded.get_output_details()]


def names(model: Model, subgraph: int = 0) -> list[str]:
    return [op.name for op in model.subgraphs[subgraph].ops]


def fates(report: Report) -> list[str]:
    return [f"{item.name}: {item}" for item in report.composites]


@pytest.fixture
def partitioned(fake_options: Options, tmp_path: Path) -> Callable[..., tuple[Report, Model]]:
    """Partitions a model with the fake vendor; returns the report and the model with its partitions."""

    def partition(model: Model, **options: Any) -> tuple[Report, Model]:
        source, output = tmp_path / "model.tflite", tmp_path / "out.tflite"
        write_model(model, source)
        return partition_model(source, output, fake_options(**options)), read_model(output)

    return partition


Partitioned = Callable[..., tuple[Report, Model]]


def test_a_vendor_who_knows_the_parts_gets_them(partitioned: Partitioned) -> None:
    report, model = partitioned(
        between_sums("odml.rms_norm", rms_norm), fake_ops="MUL,MEAN,ADD,RSQRT"
    )
    assert names(model) == ["DISPATCH_OP"]
    assert names(model, 1) == ["ADD", "MUL", "MEAN", "ADD", "RSQRT", "MUL", "MUL", "ADD"]
    assert len(model.subgraphs) == 2  # no op uses the decomposition any more
    assert fates(report) == ["odml.rms_norm: decomposed, 6 of 6 ops on the NPU"]
    assert [op.name for op in report.cpu_ops] == []
    (signature,) = model.signatures
    assert [name for name, _ in signature.outputs] == ["y"]
    assert [tensor.name for tensor in model.subgraphs[0].outputs] == ["s0"]


def test_composites_that_share_a_decomposition_are_as_though_each_had_its_own(
    partitioned: Partitioned,
) -> None:
    shared, apart = (
        partitioned(between_sums("acme.poly", twice_less_once, 3, are_apart=each), fake_ops="MUL")
        for each in (False, True)
    )
    assert to_bytes(shared[1]) == to_bytes(apart[1])
    assert fates(shared[0]) == ["acme.poly: decomposed, 1 of 2 ops on the NPU"] * 3


def test_what_a_vendor_knows_whole_it_gets_whole(partitioned: Partitioned) -> None:
    report, model = partitioned(
        between_sums("odml.rms_norm", rms_norm, 2), fake_ops="STABLEHLO_COMPOSITE,ADD,MUL"
    )
    kinds = ["ADD", "STABLEHLO_COMPOSITE", "ADD", "STABLEHLO_COMPOSITE", "ADD"]
    assert [names(model, index) for index in range(len(model.subgraphs))] == [
        ["DISPATCH_OP"],
        kinds,
    ]
    found = [read_composite(op) for op in model.subgraphs[1].ops]
    assert [item.decomposition for item in found if item] == [-1, -1]
    assert fates(report) == ["odml.rms_norm: not decomposed, on the NPU"] * 2


def test_who_takes_a_composite_s_name_for_an_op_s_is_told(
    fake_options: Options, tmp_path: Path
) -> None:
    write_model(MODELS["unknown on the CPU"](), tmp_path / "model.tflite")
    (tmp_path / "k.cl").write_bytes(b"kernel")
    options = fake_options(assets={"acme.angle": tmp_path / "k.cl"})
    report = apply_plugin(tmp_path / "model.tflite", tmp_path / "out.bin", options)
    assert (
        "the asset for 'acme.angle' has no effect, because this is the name of a composite"
        in report.warnings[0]
    )
    options = replace(options, require_npu=["acme.angle"])
    with pytest.raises(
        LiteRtError, match=r"'acme.angle', which is the name of a composite, not of an op"
    ):
        apply_plugin(tmp_path / "model.tflite", tmp_path / "out.bin", options)


def test_what_stays_on_the_cpu_stays_a_composite(partitioned: Partitioned) -> None:
    model = between_sums("acme.angle", angles)
    before = to_bytes(model)
    report, after = partitioned(model, fake_ops="ADD")
    assert names(after) == ["DISPATCH_OP", "STABLEHLO_COMPOSITE", "DISPATCH_OP"]
    assert names(after, 1) == ["ATAN2"]
    assert fates(report) == [
        "acme.angle: not decomposed, on the CPU: the plugin refuses the op without giving a reason, "
        "and the plugin also refuses all ops of the composite's decomposition"
    ]
    assert [(op.name, op.subgraph) for op in report.cpu_ops] == [
        ("STABLEHLO_COMPOSITE", 0),
        ("ATAN2", 1),
    ]
    assert report.cpu_ops[1].reason == (
        "the op is in the decomposition of composite 'acme.angle', and this composite is not decomposed"
    )
    _, untouched = partitioned(model, fake_ops="NEG")
    assert to_bytes(untouched) == before


def test_a_composite_within_another_is_taken_apart_too(partitioned: Partitioned) -> None:
    report, model = partitioned(
        within("acme.block", "acme.poly", twice_less_once, 2), fake_ops="SUB"
    )
    assert [names(model, index) for index in (1, 2)] == [["SUB"], ["SUB"]]
    one = ["MUL", "MUL", "DISPATCH_OP", "MUL", "ADD"]
    assert names(model) == ["ADD", *one, *one]
    assert len(model.subgraphs) == 3
    assert fates(report) == [
        "acme.block: decomposed, 1 of 4 ops on the NPU",
        "acme.block: decomposed, 1 of 4 ops on the NPU",
        "acme.poly: decomposed, 1 of 2 ops on the NPU",
        "acme.poly: decomposed, 1 of 2 ops on the NPU",
    ]


def test_one_of_which_nothing_is_taken_is_whole_within_what_is_apart(
    partitioned: Partitioned,
) -> None:
    report, model = partitioned(within("acme.block", "acme.angle", angles), fake_ops="MUL")
    assert names(model) == ["ADD", "DISPATCH_OP", "STABLEHLO_COMPOSITE", "DISPATCH_OP", "ADD"]
    assert names(model, 1) == ["ATAN2"]
    (inner,) = [op for op in model.subgraphs[0].ops if op.name == "STABLEHLO_COMPOSITE"]
    found = read_composite(inner)
    # angle.impl keeps index 1: block.impl, which had index 2, is gone.
    assert found and found.decomposition == 1
    assert fates(report)[0] == "acme.block: decomposed, 2 of 3 ops on the NPU"


def test_what_control_flow_names_it_names_anew(partitioned: Partitioned) -> None:
    b = ModelBuilder()
    x, flag = b.input("x", *F32), b.input("flag", "bool", (1,))
    body = twice_less_once(b)
    branches = []
    for name in ("NEG", "ABS"):
        branch = b.subgraph(name.lower())
        branch.output(branch.op(name, [branch.input("v", *F32)], [("w", *F32)]))
        branches.append(branch)
    c = composite(b, "acme.poly", body, [x], "c")
    b.output(
        b.op(
            "IF",
            [flag, c],
            [("y", *F32)],
            then_subgraph_index=branches[0],
            else_subgraph_index=branches[1],
        )
    )
    _, model = partitioned(b.build(), fake_ops="MUL,SUB")
    assert [subgraph.name for subgraph in model.subgraphs][:3] == ["main", "neg", "abs"]
    options = model.subgraphs[0].ops[-1].options
    assert options is not None
    assert (options.get("then_subgraph_index"), options.get("else_subgraph_index")) == (1, 2)


def test_the_author_s_calls_go_where_the_author_wants(partitioned: Partitioned) -> None:
    model = between_sums("odml.npu_call", rms_norm)
    report, after = partitioned(model, fake_ops="ADD")
    assert names(after) == ["DISPATCH_OP"] * 3
    assert names(after, 2) == ["MUL", "MEAN", "ADD", "RSQRT", "MUL", "MUL"]
    assert [tensor.name for tensor in after.subgraphs[2].inputs] == ["s"]
    assert fates(report) == ["odml.npu_call: not decomposed, on the NPU"]

    report, after = partitioned(between_sums("odml.cpu_call", rms_norm), fake_ops="all")
    assert names(after) == ["DISPATCH_OP", "STABLEHLO_COMPOSITE", "DISPATCH_OP"]
    assert fates(report) == [
        "odml.cpu_call: not decomposed, on the CPU: the model's author has placed the op on the CPU"
    ]


def test_an_npu_call_that_cannot_be_one_stays(partitioned: Partitioned) -> None:
    def stateful(b: ModelBuilder) -> Any:
        body = angles(b)
        body.graph.tensors[1].is_variable = True
        return body

    report, _ = partitioned(between_sums("odml.npu_call", stateful), fake_ops="ADD")
    assert fates(report) == [
        "odml.npu_call: not decomposed, on the CPU: the model's author has placed the op on the NPU, "
        "but the decomposition keeps values between runs"
    ]


def test_an_npu_call_that_the_vendor_refuses_stays_a_composite(
    fake_options: Options, tmp_path: Path
) -> None:
    source, output = tmp_path / "model.tflite", tmp_path / "out.tflite"
    write_model(between_sums("odml.npu_call", rms_norm), source)
    report = apply_plugin(source, output, fake_options(fake_ops="ADD", fake_refuse="RSQRT"))
    with read_model(output) as model:
        assert names(model) == ["DISPATCH_OP", "STABLEHLO_COMPOSITE", "DISPATCH_OP"]
        assert names(model, 1) == ["MUL", "MEAN", "ADD", "RSQRT", "MUL", "MUL"]
    assert fates(report) == [
        "odml.npu_call: not decomposed, on the CPU: no RSQRT today (Partition_1)"
    ]


def no_subgraph(model: Model) -> None:
    op = model.subgraphs[0].ops[1]
    assert op.options_2 is not None
    op.options_2 = op.options_2.with_fields(decomposition_subgraph_index=7)


Change = Callable[[Model], object]
CLOSED: dict[str, tuple[Change, str]] = {
    "no subgraph": (no_subgraph, "is subgraph 7, but the model has no such subgraph"),
    "no ops": (lambda m: m.subgraphs[1].ops.clear(), "has no ops"),
    "an input less": (
        lambda m: m.subgraphs[1].inputs.clear(),
        "differ in the number of inputs or outputs",
    ),
    "handed on": (
        lambda m: m.subgraphs[1].outputs.__setitem__(0, m.subgraphs[1].inputs[0]),
        "a tensor occurs twice among the inputs and outputs",
    ),
    "another shape": (
        lambda m: setattr(m.subgraphs[1].inputs[0], "shape", (8, 1)),
        "tensor 'a' has different types",
    ),
    "another scale": (
        lambda m: setattr(m.subgraphs[1].outputs[0], "quantization", Quantization([0.5], [0])),
        "tensor 'difference' has different types",
    ),
    "state": (
        lambda m: setattr(m.subgraphs[1].tensors[1], "is_variable", True),
        "keeps values between runs",
    ),
    "state without": (
        lambda m: setattr(m.subgraphs[0].ops[1].inputs[0], "is_variable", True),
        "keeps values between runs",
    ),
    "an input with data": (
        lambda m: setattr(m.subgraphs[1].inputs[0].buffer, "blob", Blob(bytes(32))),
        "an input of the decomposition is a constant",
    ),
    "nobody's output": (
        lambda m: m.subgraphs[1].ops[-1].release(),
        "the decomposition has an output that none of its ops computes",
    ),
}


@pytest.mark.parametrize("case", CLOSED)
def test_what_cannot_be_taken_apart_says_why(case: str) -> None:
    change, why = CLOSED[case]
    model = between_sums("acme.poly", twice_less_once)
    change(model)
    opened = OpenComposites(model, model.subgraphs[0])
    op = model.subgraphs[0].ops[1]
    found = read_composite(op)
    assert found and why in opened.admit(op, found)
    assert not opened.take_apart()


def test_what_was_seen_in_training_makes_no_other_type() -> None:
    model = between_sums("acme.poly", twice_less_once)
    op, body = model.subgraphs[0].ops[1], model.subgraphs[1]
    op.outputs[0].quantization = Quantization((0.5,), (3,), min=(-1.0,), max=(1.0,))
    body.outputs[0].quantization = Quantization((0.5,), (3,))
    found = read_composite(op)
    assert found and not OpenComposites(model, model.subgraphs[0]).admit(op, found)


def test_the_main_subgraph_is_no_decomposition(partitioned: Partitioned) -> None:
    b = ModelBuilder()
    s = b.op("ADD", [b.input("x", *F32)] * 2, [("s", *F32)])
    b.output(composite(b, "acme.loop", b, [s], "y"))
    report, model = partitioned(b.build(), fake_ops="ADD")
    assert names(model) == ["DISPATCH_OP", "STABLEHLO_COMPOSITE"]
    assert [(op.name, op.call) for op in report.npu_ops] == [("ADD", "Partition_0")]


def test_control_dependencies_in_a_file_are_those_of_the_parts(partitioned: Partitioned) -> None:
    model = between_sums("acme.poly", twice_less_once)
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(b""))
    set_control_dependencies(model, [[(0, 1), (1, 2)]])
    _, result = partitioned(model, fake_ops="SUB")
    assert names(result) == ["ADD", "MUL", "DISPATCH_OP", "ADD"]
    assert read_control_dependencies(result)[0] == [(0, 1), (1, 2), (2, 3)]


def test_a_decomposition_with_itself_in_it_ends(partitioned: Partitioned) -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    body = b.subgraph("loop.impl")
    a = body.input("a", *F32)
    inner = composite(body, "acme.loop", body, [a], "inner")
    body.output(body.op("NEG", [inner], [("negative", *F32)]))
    b.output(composite(b, "acme.loop", body, [x], "y"))
    report, model = partitioned(b.build(), fake_ops="NEG")
    assert names(model) == ["STABLEHLO_COMPOSITE", "DISPATCH_OP"]
    assert "the decomposition contains the composite itself" in fates(report)[1]


def test_decompositions_that_double_end(
    partitioned: Partitioned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_OPS", 1000)
    b = ModelBuilder()
    x = b.input("x", *F32)
    body = twice_less_once(b)
    for level in range(40):
        around = b.subgraph(f"level{level}")
        tensor = around.input("a", *F32)
        for index in range(2):
            tensor = composite(around, f"acme.level{level}", body, [tensor], f"t{index}")
        around.output(tensor)
        body = around
    b.output(composite(b, "acme.all", body, [x], "y"))
    report, model = partitioned(b.build(), fake_ops="SUB")
    # None of the 2 ** 40 SUB ops was reached: the model is unchanged.
    assert names(model) == ["STABLEHLO_COMPOSITE"] and len(model.subgraphs) == 42
    assert len(report.composites) == 1


def test_the_limit_of_ops_is_that_of_all_that_are_taken_apart_at_once(
    partitioned: Partitioned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_OPS", 10)
    report, model = partitioned(between_sums("acme.poly", twice_less_once, 7), fake_ops="SUB")
    assert names(model).count("STABLEHLO_COMPOSITE") == 2
    assert [item.num_parts for item in report.composites] == [2, 2, 2, 2, 2, 0, 0]
    assert "the decompositions would have more than 10 ops" in fates(report)[6]


def test_composites_in_each_other_are_taken_apart_to_a_depth(
    partitioned: Partitioned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DEPTH", 2)
    b = ModelBuilder()
    body = twice_less_once(b)
    for level in range(4):
        around = b.subgraph(f"level{level}")
        a = around.op("NEG", [around.input("a", *F32)], [("negative", *F32)])
        around.output(composite(around, f"acme.level{level}", body, [a], "t"))
        body = around
    b.output(composite(b, "acme.all", body, [b.input("x", *F32)], "y"))
    report, model = partitioned(b.build(), fake_ops="NEG")
    assert names(model) == ["DISPATCH_OP", "STABLEHLO_COMPOSITE"]
    assert fates(report)[2].endswith(
        "and the composite cannot be decomposed: the composite is nested in 2 other composites, "
        "the largest allowed number"
    )


def test_control_dependencies_of_large_composites_are_few() -> None:
    b = ModelBuilder()
    body = b.subgraph("long.impl")
    a = body.input("a", *F32)
    for index in range(3000):
        a = body.op("NEG", [a], [(f"t{index}", *F32)])
    body.output(a)
    y = composite(b, "acme.long", body, [b.input("x", *F32)], "first")
    b.output(composite(b, "acme.long", body, [y], "second"))
    model = b.build()
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(b""))
    set_control_dependencies(model, [[(0, 1)]])
    opened = OpenComposites(model, model.subgraphs[0])
    for op in model.subgraphs[0].ops:
        found = read_composite(op)
        assert found and not opened.admit(op, found)
    opened.take_apart()
    edges = opened.move_edges(0, read_control_dependencies(model))
    assert edges == [(place, place + 1) for place in range(5999)]


def test_control_dependencies_follow() -> None:
    model = between_sums("acme.poly", twice_less_once)
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(b""))
    set_control_dependencies(model, [[(0, 1), (1, 2)], [(0, 1)]])
    opened = OpenComposites(model, model.subgraphs[0])
    edges = read_control_dependencies(model)
    op = model.subgraphs[0].ops[1]
    found = read_composite(op)
    assert found and not opened.admit(op, found)
    assert [part.name for part in opened.take_apart()] == ["MUL", "SUB"]
    assert opened.move_edges(0, edges) == [(0, 1), (1, 2), (2, 3)]
    opened.put_back([op])
    assert opened.move_edges(0, edges) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("case", MODELS)
def test_parts_compute_what_the_composite_computes(case: str) -> None:
    model = MODELS[case]()
    before = to_bytes(model)
    expected = run(before)
    opened = OpenComposites(model, model.subgraphs[0])
    while fresh := {op: found for op in model.subgraphs[0].ops if (found := read_composite(op))}:
        assert not any(opened.admit(op, found) for op, found in fresh.items())
        opened.take_apart()
    assert find_unused(model, range(1, len(model.subgraphs)), ()) == list(
        range(1, len(model.subgraphs))
    )
    for got, wanted in zip(run(to_bytes(model)), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    opened.put_back(list(opened.parts))
    assert to_bytes(model) == before


@st.composite
def nests(draw: st.DrawFn) -> Model:
    """Draws a model with composites whose decompositions may use earlier decompositions."""
    b = ModelBuilder()
    bodies = [rms_norm(b), twice_less_once(b)]
    for level in range(draw(st.integers(0, 3))):
        body = b.subgraph(f"level{level}")
        tensor = body.input("a", *F32)
        for index in range(draw(st.integers(1, 3))):
            inner = draw(st.sampled_from([*bodies, None]))
            name = f"t{index}"
            tensor = (
                composite(body, "acme.x", inner, [tensor], name)
                if inner
                else body.op("NEG", [tensor], [(name, *F32)])
            )
        body.output(tensor)
        bodies.append(body)
    tensor = b.input("x", *F32)
    for index in range(draw(st.integers(1, 3))):
        tensor = composite(b, "acme.x", draw(st.sampled_from(bodies)), [tensor], f"t{index}")
    b.output(tensor)
    return b.build()


@settings(max_examples=25)
@given(nests(), st.data())
def test_any_may_be_taken_apart_and_put_back(model: Model, data: st.DataObject) -> None:
    before = to_bytes(model)
    subgraph = model.subgraphs[0]
    opened = OpenComposites(model, subgraph)
    for _ in range(2):
        found = {op: item for op in subgraph.ops if (item := read_composite(op))}
        chosen = data.draw(st.sets(st.integers(0, max(len(found) - 1, 0))))
        for number, (op, item) in enumerate(found.items()):
            if number in chosen:
                assert not opened.admit(op, item)
        opened.take_apart()
    for got, wanted in zip(run(to_bytes(model)), run(before), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    opened.put_back(data.draw(st.sets(st.sampled_from(list(opened.parts)))) if opened.parts else ())
    for got, wanted in zip(run(to_bytes(model)), run(before), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    opened.put_back(list(opened.parts))
    assert to_bytes(model) == before
