"""Tests `litert-npu inspect`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from litert_npu_tools.inspection import inspect_file

from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.byte_code_container import pack
from litert.model.dump import dump
from litert.model.manifest import MANIFEST_KEY
from litert.model.reader import read_model
from litert.model.stamp import STAMP_KEY
from litert.model.writer import write_model
from tests.tools.conftest import ASSETS, BYTE_CODE, LitertNpu, compiled_model

Capture = pytest.CaptureFixture[str]


def test_all_that_a_file_holds_is_shown(compiled: str, golden: Callable[[str, str], None]) -> None:
    found = replace(inspect_file(compiled), size=4096)
    golden("inspect.txt", found.to_text() + "\n")


def test_the_report_for_machines_has_the_same(
    compiled: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("inspect", compiled, "--report=json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["stamp"] == {"soc_manufacturer": "Null", "soc_model": "NULL1"}
    assert [asset["name"] for asset in report["assets"]] == list(ASSETS)
    assert report["modules"][0]["digest"]["size"] == len(BYTE_CODE)
    assert report["calls"][0]["name"] == "Partition_0"
    assert report["manifest"]["flags"] == {"require_npu": "all"}


def test_a_model_that_nobody_compiled_is_shown_too(
    original: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("inspect", original) == 0
    printed = capsys.readouterr().out
    assert "Not compiled for an NPU" in printed and "Ops: 1 (1 MUL)" in printed


def test_the_dump_is_the_models(compiled: str, litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu("inspect", "--dump", compiled) == 0
    with read_model(compiled) as model:
        assert capsys.readouterr().out == dump(model)


@pytest.mark.parametrize(
    ("name", "expected"),
    [*ASSETS.items(), ("byte_code:0", BYTE_CODE), (f"metadata:{STAMP_KEY}", None)],
    ids=["asset", "companion", "byte code", "metadata"],
)
def test_a_part_is_taken_out_byte_for_byte(
    compiled: str, litert_npu: LitertNpu, in_folder: Path, name: str, expected: bytes | None
) -> None:
    assert litert_npu("inspect", compiled, f"--extract={name}", "--output=part") == 0
    part = (in_folder / "part").read_bytes()
    assert part == expected if expected is not None else len(part) == 250


def test_assets_that_byte_code_carries_are_shown_and_taken_out(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    model = compiled_model(assets={})
    carried = [Asset("MyOp", "", Blob(b"source")), Asset("MyOp", "a.h", Blob(b"a header"))]
    model.byte_code[0].blob = Blob(pack(Blob(b"byte code"), carried))
    write_model(model, "model.tflite")
    assert litert_npu("inspect", "model.tflite") == 0
    shown = capsys.readouterr().out
    assert "Asset MyOp: 6 bytes" in shown and "Asset MyOp/a.h: 8 bytes" in shown
    assert litert_npu("inspect", "model.tflite", "--extract=MyOp/a.h", "--output=a.h") == 0
    assert Path("a.h").read_bytes() == b"a header"


def test_a_part_that_is_not_there_gives_the_names_of_those_that_are(
    compiled: str, litert_npu: LitertNpu, in_folder: Path, capsys: Capture
) -> None:
    assert litert_npu("inspect", compiled, "--extract=Other", "--output=part") == 2
    printed = capsys.readouterr().err
    assert (
        "no asset, byte code or metadata with the name 'Other'" in printed
        and "MyOp/lib/common.cl" in printed
    )
    assert not (in_folder / "part").exists()


@pytest.mark.parametrize(
    "arguments",
    [["--extract=MyOp"], ["--output=part"], ["--extract=MyOp", "--output=model.npu.tflite"],
     ["--extract=MyOp", "--output=."], ["--extract=MyOp", "--output=none/part"]],
    ids=["no output", "no name", "input", "folder", "no folder"],
)  # fmt: skip
def test_an_output_that_cannot_be_is_refused(
    compiled: str, litert_npu: LitertNpu, in_folder: Path, capsys: Capture, arguments: list[str]
) -> None:
    before = (in_folder / compiled).read_bytes()
    assert litert_npu("inspect", compiled, *arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (in_folder / compiled).read_bytes() == before
    assert [path.name for path in in_folder.iterdir()] == [compiled]


def test_a_damaged_manifest_hides_nothing_else(in_folder: Path) -> None:
    model = compiled_model()
    model.set_metadata(MANIFEST_KEY, Blob(b"{"))
    model.set_metadata(STAMP_KEY, Blob(b"x"))
    write_model(model, "damaged.tflite")
    found = inspect_file("damaged.tflite")
    assert found.stamp is None and found.manifest is None and len(found.problems) == 2
    assert [asset.name for asset in found.assets] == list(ASSETS)


def test_names_in_a_file_cannot_fake_lines_or_colours(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    b = ModelBuilder()
    y = b.custom("\x1b[31mOp\nProblem: none", [b.input("a\nb", "int8", ())], [("y", "int8", ())])
    b.output(y)
    write_model(b.build(), "hostile.tflite")
    assert litert_npu("inspect", "hostile.tflite") == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and "\nProblem" not in printed and "a\\nb" in printed


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"\0" * 100], ids=["empty", "zip", "zeros"])
def test_a_file_that_is_no_model_gives_one_line(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture, content: bytes
) -> None:
    (in_folder / "none.tflite").write_bytes(content)
    for flag in ("--dump", "--report=text", "--report=json"):
        assert litert_npu("inspect", "none.tflite", flag) == 2
        printed = capsys.readouterr()
        assert len(printed.err.splitlines()) == 1
        assert bool(printed.out) == (flag == "--report=json")
