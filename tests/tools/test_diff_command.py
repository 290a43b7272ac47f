"""Tests `litert-npu diff`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu, compiled_model

Capture = pytest.CaptureFixture[str]
SHAPE = ("float32", (1, 4))


@pytest.fixture
def pair(in_folder: Path) -> tuple[str, str]:
    """The paths of a model and of a changed copy: a fused activation, another constant, op and output name."""
    for name, is_after in (("before.tflite", False), ("after.tflite", True)):
        b = ModelBuilder()
        x, w = b.input("x", *SHAPE), b.constant("w", 2.0 if is_after else 1.0, "float32")
        first = b.op("MUL", [x, w], [("product", *SHAPE)])
        if is_after:
            last = b.op("ADD", [x, first], [("y", *SHAPE)], fused_activation_function="RELU")
        else:
            last = b.op("RELU", [b.op("ADD", [x, first], [("sum", *SHAPE)])], [("y", *SHAPE)])
        b.output(last)
        b.signature("main", {"in": x}, {("result" if is_after else "out"): last})
        if is_after:
            b.op("SHAPE", [x], [("shape\n", "int32", (2,))], out_type="INT32")
        write_model(b.build(), name)
    return "before.tflite", "after.tflite"


def test_what_is_different_is_shown(
    pair: tuple[str, str],
    litert_npu: LitertNpu,
    capsys: Capture,
    golden: Callable[[str, str], None],
) -> None:
    assert litert_npu("diff", *pair) == 1
    golden("diff.txt", capsys.readouterr().out)


def test_machines_get_the_same(
    pair: tuple[str, str], litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("diff", *pair, "--report=json") == 1
    report = json.loads(capsys.readouterr().out)
    (subgraph,) = report["subgraphs"]
    assert not report["is_same"]
    assert [op["name"] for op in subgraph["removed"]] == ["RELU"]
    assert [op["name"] for op in subgraph["added"]] == ["SHAPE"]
    assert subgraph["changed"][0]["changes"] == [
        {"what": "input 1 data", "before": "dense<1.0>", "after": "dense<2.0>"}
    ]


def test_a_model_is_the_same_as_itself(
    pair: tuple[str, str], litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("diff", pair[0], pair[0]) == 0
    assert capsys.readouterr().out == "No difference\n"
    assert litert_npu("diff", pair[0], pair[0], "--report=json") == 0
    assert json.loads(capsys.readouterr().out)["is_same"]


def test_compiled_files_are_compared_whole(
    compiled: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    model = compiled_model()
    model.byte_code[0].blob = Blob(b"other byte code")
    write_model(model, "other.tflite")
    assert litert_npu("diff", compiled, "other.tflite") == 1
    printed = capsys.readouterr().out
    assert "~ 0 DISPATCH_OP" in printed and "byte code:" in printed
    assert "litert_npu_asset" not in printed


@pytest.mark.parametrize(
    "arguments", [["before.tflite", "none"], ["before.tflite"], ["before.tflite", "cut"]]
)
def test_what_cannot_be_compared_is_neither_the_same_nor_different(
    pair: tuple[str, str], litert_npu: LitertNpu, in_folder: Path, capsys: Capture,
    arguments: list[str],
) -> None:  # fmt: skip
    (in_folder / "cut").write_bytes((in_folder / pair[0]).read_bytes()[:100])
    assert litert_npu("diff", *arguments) == 2
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1 and not printed.out
