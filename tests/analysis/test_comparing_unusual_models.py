"""Tests comparing models with state, control flow, signatures, dynamic shapes, strings, or no op on the NPU."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.litert_npu import guarded_main

from litert.analysis.magnitudes import remove_signs
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.graph import Tensor
from litert.model.table import Table
from litert.model.writer import write_model

Capture = pytest.CaptureFixture[str]
Compare = Callable[..., tuple[int, dict[str, Any], str]]
FLOATS = ("float32", (1, 8))
INSIDE = pytest.mark.parametrize("inside", ["auto", "cuts", "taps"])
EXP = """
__kernel void EXP(const __global float* x, __global float* y) {
  size_t i = get_global_id(0);
  y[i] = exp(x[i]) * (i != 5);
}
"""


@pytest.fixture
def compare(capfd: Capture, tmp_path: Path) -> Compare:
    """A function that compares a model, with all ops on the reference vendor's NPU.

    It returns the exit status, the report and the errors.
    """

    def run(builder: ModelBuilder, *arguments: object) -> tuple[int, dict[str, Any], str]:
        write_model(builder.build(), tmp_path / "model.tflite")
        flags = ["-q", "--report=json", "--reference_ops=all", *map(str, arguments)]
        status = guarded_main(["litert-npu", "compare", str(tmp_path / "model.tflite"), *flags])
        captured = capfd.readouterr()
        return status, json.loads(captured.out or "{}"), captured.err

    return run


@pytest.fixture
def wrong_exp(tmp_path: Path) -> str:
    """The flag for a kernel of EXP that is wrong in element 5."""
    (tmp_path / "EXP.cl").write_text(EXP)
    return f"--npu_custom_op_info=EXP,{tmp_path / 'EXP.cl'}"


def exp_tanh(graph: SubgraphBuilder, value: Tensor, name: str = "") -> Tensor:
    exp = graph.op("EXP", [value], [(f"{name}exp", *FLOATS)])
    result: Tensor = graph.op("TANH", [exp], [(f"{name}tanh", *FLOATS)])
    return result


def assert_shown_again(report: dict[str, Any]) -> None:
    """Checks that the printed command for the smallest wrong part blames the op of that part."""
    (op,) = report["part"]["ops"]
    assert op == report["blamed"]["op"]
    assert guarded_main(shlex.split(report["part"]["command"])) == 1


def counted(builder: ModelBuilder) -> None:
    """Builds sum = variable + x, which is assigned to the variable, and y = tanh(exp(sum))."""
    x = builder.input("x", *FLOATS)
    handle = builder.op(
        "VAR_HANDLE", [], [("handle", "resource", ())], container="", shared_name="v"
    )
    read = builder.op("READ_VARIABLE", [handle], [("read", *FLOATS)])
    total = builder.op("ADD", [read, x], [("sum", *FLOATS)])
    builder.op("ASSIGN_VARIABLE", [handle, total], [])
    builder.output(exp_tanh(builder, total))


def dropped(builder: ModelBuilder) -> None:
    """Builds y = tanh(exp(x + random numbers))."""
    x = builder.input("x", *FLOATS)
    shape = builder.constant("shape", np.array([1, 8], np.int32))
    noise = builder.op("RANDOM_UNIFORM", [shape], [("noise", *FLOATS)], seed=0, seed2=0)
    builder.output(exp_tanh(builder, builder.op("ADD", [noise, x], [("sum", *FLOATS)])))


@INSIDE
@pytest.mark.parametrize("build", [counted, dropped])
def test_what_depends_on_earlier_runs_or_on_chance_is_no_race(
    compare: Compare, wrong_exp: str, build: Callable[[ModelBuilder], None], inside: str
) -> None:
    """Each op on the NPU is still checked, with the inputs that it had in the same run."""
    builder = ModelBuilder()
    build(builder)
    flags = (f"--inside={inside}", "--num_samples=2")
    status, report, _ = compare(builder, *flags)
    assert status == 0 and [t["name"] for t in report["tensors"]] == ["sum", "exp", "tanh"]
    (left,) = report["not_compared"]
    assert (
        left["name"] in ("read", "noise")
        and "depends on more than the op's inputs" in left["reason"]
    )
    status, report, _ = compare(builder, *flags, wrong_exp)
    assert status == 1 and report["first"] == report["blamed"]["tensor"] == "exp"
    assert "differ from run to run" not in report["blamed"]["why"]


@INSIDE
def test_a_loop_is_checked_as_one_op_and_that_is_said(
    compare: Compare, tmp_path: Path, wrong_exp: str, inside: str
) -> None:
    builder = ModelBuilder()
    n, x = builder.input("n", "int32", ()), builder.input("x", *FLOATS)
    cond, body = builder.subgraph("cond"), builder.subgraph("body")
    count = cond.input("count", "int32", ())
    cond.input("unused", *FLOATS)
    zero = cond.constant("zero", np.array(0, np.int32))
    cond.output(cond.op("GREATER", [count, zero], [("more", "bool", ())]))
    count, value = body.input("count", "int32", ()), body.input("value", *FLOATS)
    one = body.constant("one", np.array(1, np.int32))
    left = body.op("SUB", [count, one], [("left", "int32", ())])
    body.output(left, exp_tanh(body, value))
    loop = builder.op(
        "WHILE", [n, x], [("n_left", "int32", ()), ("looped", *FLOATS)], cond_subgraph_index=cond,
        body_subgraph_index=body,
    )  # fmt: skip
    builder.output(*loop)
    flags = (f"--inside={inside}", "--input_range=n:2:3")
    status, report, _ = compare(builder, *flags)
    assert status == 0 and [tensor["op_name"] for tensor in report["tensors"]] == ["WHILE"] * 2
    assert any("in subgraphs of WHILE" in note for note in report["notes"])
    status, report, _ = compare(builder, *flags, wrong_exp, f"--bisect={tmp_path / 'part'}")
    assert status == 1 and report["blamed"]["op"] == {"subgraph": 0, "index": 0, "name": "WHILE"}
    assert_shown_again(report)


@INSIDE
def test_where_no_call_has_anything_inside_each_way_does(
    compare: Compare, wrong_exp: str, inside: str
) -> None:
    builder = ModelBuilder()
    exp = builder.op("EXP", [builder.input("x", *FLOATS)], [("exp", *FLOATS)])
    builder.output(exp)
    assert compare(builder, f"--inside={inside}")[0] == 0
    assert compare(builder, f"--inside={inside}", wrong_exp)[0] == 1


@INSIDE
def test_an_op_that_a_vendor_merges_into_the_next_is_checked_with_it(
    compare: Compare, wrong_exp: str, inside: str
) -> None:
    """The vendor writes the reshaped rows directly into the concatenation, so no tap shows them."""
    builder = ModelBuilder()
    exp = builder.op("EXP", [builder.input("x", *FLOATS)], [("exp", *FLOATS)])
    shape = builder.constant("shape", np.array([8], np.int32))
    rows = [builder.op("RESHAPE", [exp, shape], [(name, "float32", (8,))]) for name in ("a", "b")]
    builder.output(exp, builder.op("CONCATENATION", rows, [("joined", "float32", (16,))], axis=0))
    status, report, _ = compare(builder, f"--inside={inside}")
    assert status == 0 and not report["unchecked"]
    status, report, _ = compare(builder, f"--inside={inside}", wrong_exp)
    assert status == 1 and report["blamed"]["tensor"] == "exp"


def test_a_signature_is_compared_and_others_are_named(
    compare: Compare, tmp_path: Path, wrong_exp: str
) -> None:
    builder = ModelBuilder()
    for key, graph in (("first", builder), ("second", builder.subgraph("second"))):
        graph.output(exp_tanh(graph, graph.input("x", *FLOATS), key))
        graph.signature(key)
    bisect = f"--bisect={tmp_path / 'part'}"
    status, report, _ = compare(builder, "--signature=second", wrong_exp, bisect)
    assert status == 1 and report["blamed"]["op"] == {"subgraph": 1, "index": 0, "name": "EXP"}
    assert any(
        note.endswith("select another signature with --signature: 'first'")
        for note in report["notes"]
    )
    assert_shown_again(report)


@INSIDE
def test_each_sample_may_have_a_shape_of_its_own(
    compare: Compare, tmp_path: Path, wrong_exp: str, inside: str
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4), shape_signature=(-1, 4))
    exp = builder.tensor("exp", "float32", (1, 4), shape_signature=(-1, 4))
    builder.output(builder.op("EXP", [x], [exp]))
    samples = tmp_path / "samples"
    samples.mkdir()
    for rows in (1, 3):
        np.savez(samples / f"{rows}.npz", x=np.ones((rows, 4), np.float32))
    flags = ("--shape_bounds=x:8x4", f"--inputs={samples}", f"--inside={inside}")
    status, report, _ = compare(builder, *flags, wrong_exp, f"--bisect={tmp_path / 'part'}")
    assert status == 1 and [sample["num_beyond"] for sample in report["samples"]] == [0, 1]
    assert "element [1, 1] is 0" in report["blamed"]["why"]
    assert np.load(report["part"]["inputs"])["x"].shape == (3, 4)
    np.savez(samples / "9.npz", x=np.ones((9, 4), np.float32))
    status, _, error = compare(builder, *flags, wrong_exp)
    assert status == 2 and "exceeds the largest shape" in error and str(samples / "9.npz") in error
    assert_shown_again(report)


def test_a_model_with_nothing_on_the_npu_says_so(compare: Compare) -> None:
    builder = ModelBuilder()
    x = builder.input("x", *FLOATS)
    builder.output(builder.op("FLOOR_MOD", [x, x], [("y", *FLOATS)]))
    status, report, _ = compare(builder)
    assert status == 0 and report["tensors"][0]["where"] == "cpu"
    assert any("no op is on the NPU" in note for note in report["notes"])


def test_an_op_on_constants_is_named_where_its_reader_is_wrong(
    compare: Compare, wrong_exp: str
) -> None:
    """The op's result is computed once, before any run, so it is not compared."""
    builder = ModelBuilder()
    x, fixed = builder.input("x", *FLOATS), builder.constant("c", np.ones((1, 8), np.float32))
    scales = builder.op("EXP", [fixed], [("exp", *FLOATS)])
    builder.output(builder.op("MUL", [x, scales], [("y", *FLOATS)]))
    status, report, _ = compare(builder, wrong_exp)
    assert status == 1 and report["blamed"]["op"]["name"] == "MUL"
    assert report["blamed"]["why"].endswith("may be at fault: 0 EXP")


def test_an_input_of_strings_is_refused_by_name(compare: Compare) -> None:
    builder = ModelBuilder()
    texts, x = builder.input("texts", "string", (2,)), builder.input("x", *FLOATS)
    order = builder.constant("order", np.array([1, 0], np.int32))
    builder.output(
        builder.op("GATHER", [texts, order], [("sorted", "string", (2,))], axis=0),
        exp_tanh(builder, x),
    )
    status, _, error = compare(builder)
    assert status == 2 and "input 'texts' has type string" in error


@pytest.mark.parametrize("inside", ["cuts", "taps"])
def test_numbers_that_are_none_and_tensors_without_elements_are_no_faults(
    compare: Compare, inside: str
) -> None:
    builder = ModelBuilder()
    x, none = builder.input("x", *FLOATS), builder.input("none", "float32", (0, 8))
    nan = builder.op("SQRT", [builder.op("NEG", [x], [("neg", *FLOATS)])], [("nan", *FLOATS)])
    zero = builder.constant("zero", np.zeros(1, np.float32))
    infinite = builder.op("DIV", [x, zero], [("infinite", *FLOATS)])
    empty = builder.op("EXP", [none], [("empty", "float32", (0, 8))])
    y = builder.op("ADD", [infinite, x], [("y", *FLOATS)])
    builder.output(nan, builder.op("CONCATENATION", [empty, y], [("joined", *FLOATS)], axis=0))
    status, report, _ = compare(builder, f"--inside={inside}")
    assert status == 0 and not report["first"]
    problems = {t["name"]: t["problem"] for t in report["tensors"] if t["problem"]}
    assert set(problems) == {"nan", "infinite", "y", "joined"}


def sparse_weights(builder: ModelBuilder) -> Tensor:
    """Adds a sparse 2 x 3 matrix, stored by rows, with -1 in its first column and zeros elsewhere."""
    rows = Table.make("DimensionMetadata", format=0, dense_size=2)
    columns = Table.make(
        "DimensionMetadata", format=1,
        array_segments=Table.make("Int32Vector", values=[0, 1, 2]),
        array_indices=Table.make("Int32Vector", values=[0, 0]),
    )  # fmt: skip
    sparsity = Table.make(
        "SparsityParameters", traversal_order=[0, 1], block_map=[], dim_metadata=[rows, columns]
    )
    data = np.array([-1, -1], np.float32).tobytes()
    return builder.constant("weights", data, "float32", (2, 3), sparsity=sparsity)


@pytest.mark.parametrize("kind", ["input", "output"])
def test_a_sparse_constant_at_the_border_of_a_model_is_refused_by_name(
    compare: Compare, kind: str
) -> None:
    b = ModelBuilder()
    ends = b.graph.inputs if kind == "input" else b.graph.outputs
    ends.append(sparse_weights(b))
    b.output(b.op("ABS", [b.input("x", *FLOATS)], [("y", *FLOATS)]))
    status, _, error = compare(b)
    assert status == 2 and f"UNSUPPORTED: the {kind} is a sparse constant of the model" in error


def test_magnitudes_of_sparse_weights_are_those_of_dense_ones() -> None:
    b = ModelBuilder()
    weights = sparse_weights(b)
    x = b.input("x", "float32", (1, 3))
    b.output(b.op("FULLY_CONNECTED", [x, weights, None], [("y", "float32", (1, 2))]))
    assert remove_signs(b.graph) is not None and weights.sparsity is None
    assert np.frombuffer(weights.data, np.float32).tolist() == [1, 0, 0, 1, 0, 0]


def test_weights_with_scales_of_blocks_have_xnnpack_for_their_reference(compare: Compare) -> None:
    b = ModelBuilder()
    scales = b.constant("scales", np.ones((32, 2), np.float16))
    blocks = Quantization(blockwise=BlockwiseQuantization(scales, None, 32))
    weights = b.constant("w", bytes([0x11] * 1024), "int4", (32, 64), quantization=blocks)
    y = b.op(
        "FULLY_CONNECTED",
        [b.input("x", "float32", (1, 64)), weights, None],
        [("y", "float32", (1, 32))],
    )
    b.output(b.op("ABS", [y], [("z", "float32", (1, 32))]))
    status, report, _ = compare(b)
    assert status == 0, report
    assert "XNNPACK computes the reference of FULLY_CONNECTED" in report["notes"]
