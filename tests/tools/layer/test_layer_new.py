"""Tests that the files that `litert-npu layer new` and `litert-npu layer stub` write compile and run."""

from __future__ import annotations

import json
import os
import shlex
import struct
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu

pytestmark = pytest.mark.usefixtures("in_this_process")

Capture = pytest.CaptureFixture[str]


def write_models() -> None:
    """Writes `halves.tflite`, whose op has a map of options, and `struct.tflite`, whose op has a struct."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 6, 3))
    options: dict[str, FlexValue] = {"alpha": 0.5, "taps": [1, 2, 3], "n": 7, "label": "text"}
    outputs = [("y", "float32", (1, 4, 6, 3)), ("z", "int32", (5,))]
    b.output(*b.custom("my-op", [x], outputs, options=options))
    write_model(b.build(), "halves.tflite")
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    weights = b.constant("w", np.ones((3,), np.float32))
    raw = struct.pack("<if", 4, 0.25)
    b.output(b.custom("Struct", [x, None, weights], [("y", "float32", (2, 2))], options=raw))
    write_model(b.build(), "struct.tflite")


@pytest.fixture(autouse=True)
def models_there(author: Path) -> None:
    write_models()


@pytest.mark.parametrize("kind", ["cl", "json", "xml"])
def test_a_skeleton_builds_and_runs_at_once(
    author: Path, litert_npu: LitertNpu, capsys: Capture, kind: str
) -> None:
    assert litert_npu("layer", "new", "--model=halves.tflite", f"--kind={kind}", "-o", "f") == 0
    assert "The next commands are in f/my_op.md" in capsys.readouterr().out
    asset = f"f/my_op.{kind}"
    arguments = (asset, "--model=halves.tflite", "--op=my-op", "--repeat=0", "--report=json")
    reference = "--reference=f/my_op_reference.py:reference"
    assert litert_npu("layer", "run", *arguments, reference) == 0
    report = json.loads(capsys.readouterr().out)
    assert [c["greatest_difference"] for c in report["comparisons"]] == [0, 0]
    check = (asset, "--model=halves.tflite", "--op=my-op", "--report=json")
    assert litert_npu("layer", "check", *check) == 0
    notes = [note for s in json.loads(capsys.readouterr().out)["subjects"] for note in s["notes"]]
    assert not any("index narrower" in note for note in notes)


def test_the_commands_of_an_op_of_dynamic_shape_have_bounds(
    author: Path, litert_npu: LitertNpu
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4), shape_signature=(-1, 4))
    y = b.tensor("y", "float32", (1, 4), shape_signature=(-1, 4))
    b.output(b.custom("Open", [x], [y]))
    write_model(b.build(), "open.tflite")
    assert litert_npu("layer", "new", "--model=open.tflite", "-o", "f") == 0
    commands = (author / "f/Open.md").read_text()
    assert commands.count(" --shape_bounds=x:100x4") == 4
    assert (
        litert_npu("layer", "check", "f/Open.cl", "--model=open.tflite", "--shape_bounds=x:100x4")
        == 0
    )


def test_a_skeleton_writes_the_shape_that_a_kernel_has_to_find(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (6, 4))
    count = b.tensor("count", "int32", (2,))
    kept = b.tensor("kept", "float32", (1, 4), shape_signature=(-1, 4))
    b.custom("Keep", [x], [count, kept])
    b.output(count, kept)
    write_model(b.build(), "open.tflite")
    assert litert_npu("layer", "new", "--model=open.tflite", "-o", "f") == 0
    commands = (author / "f/Keep.md").read_text()
    assert commands.count(" --shape_bounds=kept:100x4") == 4
    run = ("f/Keep.json", "--model=open.tflite", "--shape_bounds=kept:100x4")
    reference = "--reference=f/Keep_reference.py:reference"
    assert litert_npu("layer", "check", *run) == 0
    assert litert_npu("layer", "run", *run, reference, "--repeat=0") == 0
    assert "kept: float32[0, 4]" in capsys.readouterr().out


def test_options_become_defines(author: Path, litert_npu: LitertNpu) -> None:
    assert litert_npu("layer", "new", "--model=halves.tflite", "--kind=json", "-o", "f") == 0
    description = json.loads((author / "f" / "my_op.json").read_text())
    assert description["defines"] == [
        {"name": "ALPHA", "type": "float", "option": "alpha"},
        {"name": "N", "type": "int", "option": "n"},
        {"name": "TAPS", "type": "int[]", "option": "taps"},
    ]
    assert "//   ALPHA: 0.5\n" in (author / "f" / "my_op.cl").read_text()


def test_a_struct_s_bytes_become_fields(author: Path, litert_npu: LitertNpu) -> None:
    assert litert_npu("layer", "new", "--model=struct.tflite") == 0
    description = json.loads((author / "Struct" / "Struct.json").read_text())
    assert description["defines"] == [
        {"name": "FIELD_0", "type": "int", "field": {"type": "int32", "offset": 0}},
        {"name": "FIELD_4", "type": "float", "field": {"type": "float32", "offset": 4}},
    ]
    assert description["arguments"] == [{"input": 0}, {"input": 2}, {"output": 0}]
    assert "FIELD_4: 0.25 (bytes 00 00 80 3e)" in (author / "Struct" / "Struct.cl").read_text()
    run = ("layer", "run", "Struct/Struct.json", "--model=struct.tflite", "--repeat=0")
    assert litert_npu(*run) == 0


def test_a_list_of_options_builds_as_the_skeleton_says(author: Path, litert_npu: LitertNpu) -> None:
    assert litert_npu("layer", "new", "--model=halves.tflite", "-o", "f") == 0
    kernel = author / "f/my_op.cl"
    (line,) = [text for text in kernel.read_text().splitlines() if "commas between" in text]
    assert line.endswith("const int a[] = {PARAM_taps};")
    declaration = line.partition(": ")[2]
    kernel.write_text(
        kernel.read_text().replace("  const size_t i =", f"  {declaration}\n  const size_t i =")
    )
    assert litert_npu("layer", "check", "f/my_op.cl", "--model=halves.tflite") == 0


def test_a_folder_takes_the_skeletons_of_several_ops(author: Path, litert_npu: LitertNpu) -> None:
    for model in ("halves", "struct"):
        assert litert_npu("layer", "new", f"--model={model}.tflite", "-o", "f") == 0
    assert {"my_op.cl", "my_op.md", "Struct.json", "Struct.md"} <= set(os.listdir("f"))


def test_no_file_is_replaced(author: Path, litert_npu: LitertNpu, capsys: Capture) -> None:
    (author / "f").mkdir()
    (author / "f" / "Struct.cl").write_text("mine")
    assert litert_npu("layer", "new", "--model=struct.tflite", "-o", "f") == 2
    assert "ALREADY_EXISTS: the file already exists (f/Struct.cl)" in capsys.readouterr().err
    assert [p.name for p in (author / "f").iterdir()] == ["Struct.cl"]
    assert (author / "f" / "Struct.cl").read_text() == "mine"


def test_a_stub_compiles_for_all_ops_of_its_name(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "stub", "--model=model.tflite", "-o", "s") == 0
    printed = capsys.readouterr().out
    command = (
        "apply_plugin --npu_custom_op_info=Softsign,s/Softsign_stub.json model.tflite stub.tflite"
    )
    assert command in printed and "litert-npu benchmark stub.tflite" in printed
    info = CustomOpInfo("Softsign", "s/Softsign_stub.json")
    report = apply_plugin(
        "model.tflite",
        "stub.tflite",
        ApplyOptions(require_npu=["Softsign"], compiler=CompilerOptions([info])),
    )
    assert len(report.npu_ops) == 3
    assert litert_npu("run", "stub.tflite") == 0


WRONG = {
    "no model": (["new"], "no model. Give --model=FILE"),
    "no op": (
        ["new", "--model=model.tflite", "--op=Sinh"],
        "the model contains no op 'Sinh' (model.tflite). Set --op to an op of the model. The only custom op is "
        "Softsign.",
    ),
    "a stub of nothing": (["stub"], "no model"),
    "a kind": (["new", "--model=model.tflite", "--kind=so"], "--kind has the unknown value 'so'"),
    "a folder that is a file": (
        ["stub", "--model=model.tflite", "-o", "model.tflite"],
        "cannot write",
    ),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_give_a_message(
    litert_npu: LitertNpu, capsys: Capture, arguments: list[str], said: str
) -> None:
    assert litert_npu("layer", *arguments) == 2
    printed = capsys.readouterr()
    assert said in printed.err and not printed.out


@pytest.mark.parametrize("name", ["7", "0:7"])
def test_the_commands_of_an_op_whose_name_is_like_a_place_find_it(
    author: Path, litert_npu: LitertNpu, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    y = b.op("ABS", [x], [("y", "float32", (2, 3))])
    b.output(b.custom(name, [y], [("z", "float32", (2, 3))]))
    write_model(b.build(), "number.tflite")
    assert litert_npu("layer", "new", "--model=number.tflite", "-o", "f") == 0
    (readme,) = Path("f").glob("*.md")
    monkeypatch.chdir("f")
    commands = [shlex.split(line) for line in Path(readme.name).read_text().splitlines()[5:-1]]
    assert [litert_npu(*words[1:]) for words in commands[:2]] == [0, 0]
    assert "--op=1" in commands[0]
