"""Tests `litert-npu coverage`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.compiler_plugin.conftest import VENDORS
from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]
VECTOR = ("float32", (1, 8))
FAKE = ("--soc_manufacturer=Fake", f"--libs={VENDORS}")


@pytest.fixture
def folder(in_folder: Path) -> Path:
    """A folder with two models and a damaged file."""
    for name, activation in (("first", "TANH"), ("second", "RELU")):
        b = ModelBuilder()
        x = b.input("x", *VECTOR)
        w = b.constant("w", np.ones((8, 8), np.float32))
        y = b.op("FULLY_CONNECTED", [x, w, None], [("y", *VECTOR)])
        z = b.op(activation, [y], [("z", *VECTOR)])
        b.output(b.custom("My", [z], [("out", *VECTOR)]))
        (in_folder / "models").mkdir(exist_ok=True)
        write_model(b.build(), in_folder / "models" / f"{name}.tflite")
    (in_folder / "models" / "third.tflite").write_bytes(b"no model")
    return in_folder


def test_one_model_is_shown_by_kind_and_reason(
    folder: Path, litert_npu: LitertNpu, capsys: Capture, golden: Callable[[str, str], None]
) -> None:
    assert litert_npu("coverage", "models/first.tflite", *FAKE, "--fake_ops=FULLY_CONNECTED") == 0
    golden("coverage_one.txt", capsys.readouterr().out)


def test_a_folder_is_one_table_with_refusals_counted(
    folder: Path, litert_npu: LitertNpu, capsys: Capture, golden: Callable[[str, str], None]
) -> None:
    assert litert_npu("coverage", "models", *FAKE, "--fake_ops=FULLY_CONNECTED") == 2
    golden("coverage_folder.txt", capsys.readouterr().out)


def report(litert_npu: LitertNpu, capsys: Capture, *arguments: str) -> str:
    litert_npu("coverage", *arguments, *FAKE)
    return capsys.readouterr().out


def test_a_vendor_that_takes_less_is_worse(
    folder: Path, litert_npu: LitertNpu, capsys: Capture, golden: Callable[[str, str], None]
) -> None:
    old = report(litert_npu, capsys, "models", "--fake_ops=FULLY_CONNECTED,RELU", "--report=json")
    (folder / "old.json").write_text(old)
    (folder / "models" / "third.tflite").unlink()
    write_model(ModelBuilder().build(), folder / "models" / "empty.tflite")
    compare = ("coverage", "models", *FAKE, "--compare=old.json")
    assert litert_npu(*compare, "--fake_ops=FULLY_CONNECTED,RELU") == 0
    capsys.readouterr()
    assert litert_npu(*compare, "--fake_ops=FULLY_CONNECTED,TANH") == 1
    _, _, printed = capsys.readouterr().out.partition("Compared with")
    golden("coverage_compared.txt", printed)
    assert litert_npu(*compare, "--fake_ops=all", "--report=json") == 0
    compared = json.loads(capsys.readouterr().out)["comparison"]
    assert [len(m["came"]) for m in compared["models"]] == [2, 1]
    assert compared["new"] == ["models/empty.tflite"] and not compared["is_worse"]


def test_a_damaged_model_that_was_damaged_before_is_not_worse(
    folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (folder / "old.json").write_text(report(litert_npu, capsys, "models", "--report=json"))
    assert litert_npu("coverage", "models", *FAKE, "--compare=old.json") == 0
    assert "the model has a problem, as before" in capsys.readouterr().out
    (folder / "models" / "second.tflite").write_bytes(b"no more")
    assert litert_npu("coverage", "models", *FAKE, "--compare=old.json") == 1


def test_another_model_of_that_name_cannot_be_compared(
    folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    first = "models/first.tflite"
    (folder / "old.json").write_text(report(litert_npu, capsys, first, "--report=json"))
    (folder / "models" / "second.tflite").rename(folder / first)
    assert litert_npu("coverage", first, *FAKE, "--compare=old.json") == 2
    assert "not compared: the models differ: op 1 of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the text is not JSON"),
        ("[]", "not an object"),
        ('{"models": []}', "field 'soc_manufacturer' is missing"),
        (
            '{"soc_manufacturer": "A", "soc_model": "B", "plugin_sdk_version": "", "sdk_version": "9", '
            '"models": [{"path": "x"}]}',
            "$.models[0]: field 'problem' is missing",
        ),
    ],
)
def test_a_file_that_is_no_report_is_an_error(
    folder: Path, litert_npu: LitertNpu, capsys: Capture, text: str, words: str
) -> None:
    (folder / "old.json").write_text(text)
    assert litert_npu("coverage", "models", *FAKE, "--compare=old.json") == 2
    printed = capsys.readouterr()
    assert words in printed.err and "not a report of litert-npu coverage" in printed.err
    assert not printed.out


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        (["--fail_under=20"], 0),  # the NPU runs 128 of 128 + 8 * 64 operations
        (["--fail_under=20.1"], 1),
        (["--fail_under_ops=33"], 0),
        (["--fail_under_ops=34"], 1),
    ],
)
def test_less_than_is_asked_for_fails(
    folder: Path, litert_npu: LitertNpu, capsys: Capture, flags: list[str], status: int
) -> None:
    arguments = ("models/first.tflite", *FAKE, "--fake_ops=FULLY_CONNECTED", *flags)
    assert litert_npu("coverage", *arguments) == status
    assert ("Failed: models/first.tflite" in capsys.readouterr().out) is bool(status)


@pytest.mark.parametrize("flag", ["fail_under", "fail_under_ops"])
@pytest.mark.parametrize("percentage", ["-1", "100.1"])
def test_a_limit_that_is_no_percentage_is_refused(
    folder: Path, litert_npu: LitertNpu, capsys: Capture, flag: str, percentage: str
) -> None:
    assert litert_npu("coverage", "models/first.tflite", *FAKE, f"--{flag}={percentage}") == 2
    said = capsys.readouterr().err
    assert f"--{flag}" in said and "[0, 100]" in said


def test_a_model_of_unknown_arithmetic_fails_where_some_is_asked_for(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    b = ModelBuilder()
    b.output(b.custom("My", [b.input("x", *VECTOR)], [("y", *VECTOR)]))
    write_model(b.build(), "m.tflite")
    assert litert_npu("coverage", "m.tflite", *FAKE) == 0
    assert litert_npu("coverage", "m.tflite", *FAKE, "--fail_under=1") == 1
    assert "Failed: m.tflite: the cost of some ops is unknown" in capsys.readouterr().out


def test_a_table_has_a_row_for_each_op(
    folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    text = report(litert_npu, capsys, "models", "--fake_ops=RELU", "--report=csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 3 + 3 + 1
    assert [row["macs"] for row in rows[:3]] == ["64", "0", ""]
    assert "not a TFLite model" in rows[-1]["problem"] and not rows[-1]["name"]


def test_formulas_and_shapes_are_read(folder: Path, litert_npu: LitertNpu, capsys: Capture) -> None:
    arguments = ("models/first.tflite", "--flops=My,3*F", "--report=json")
    found = json.loads(report(litert_npu, capsys, *arguments))
    assert found["models"][0]["ops"][2]["operations"] == 24
    for problem, flags in (
        ("--flops=My does not contain a formula", ["--flops=My"]),
        ("--flops=,2*F does not contain an op", ["--flops=,2*F"]),
        ("--flops=My,2*F gives op 'My' a second formula", ["--flops=My,F", "--flops=My,2*F"]),
        ("2*Q", ["--flops=My,2*Q"]),
        ("--shape contains 'x'", ["--shape=x"]),
    ):
        assert litert_npu("coverage", "models", *FAKE, *flags) == 2
        printed = capsys.readouterr()
        assert not printed.out and problem in printed.err


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["models", "--fake_ops"]])
def test_a_wrong_command_line_is_an_error(
    folder: Path, litert_npu: LitertNpu, capsys: Capture, arguments: list[str]
) -> None:
    assert litert_npu("coverage", *arguments) == 2
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1 and not printed.out
