"""Tests `litert-npu layer check`."""

from __future__ import annotations

import json
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import SHAPES, SOFTSIGN

pytestmark = pytest.mark.usefixtures("in_this_process")

Capture = pytest.CaptureFixture[str]
OPTIONS = '--options={"alpha": 2.0}'


@pytest.mark.usefixtures("author")
def test_a_layer_is_checked_against_each_different_op_of_a_model(
    litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "check", "Softsign.cl", "--model=model.tflite") == 0
    printed = capsys.readouterr().out
    assert "Softsign.cl for 'Softsign', 2 different ops" in printed
    assert "op 0 of model.tflite, and 1 like it: (tensor<2x4xf32>) -> tensor<2x4xf32>" in printed
    assert "op 2 of model.tflite: " in printed
    assert "PARAM_alpha = 0.5f" in printed and "PARAM_alpha = 2.0f" in printed
    assert "0  __global const float* x  <-  input 0: tensor<2x4xf32>" in printed
    assert printed.count("ok: the layer builds") == 2


@pytest.mark.usefixtures("author")
def test_one_op_can_be_chosen_by_its_index(litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu("layer", "check", "Softsign.cl", "--model=model.tflite", "--op=2") == 0
    printed = capsys.readouterr().out
    assert "1 op\n" in printed and "op 0" not in printed


@pytest.mark.usefixtures("author")
def test_a_layer_is_checked_against_given_shapes(litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu("layer", "check", "Softsign.cl", *SHAPES, OPTIONS, "--report=json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and report["op_name"] == "Softsign"
    (subject,) = report["subjects"]
    assert subject["types"] == "(tensor<2x4xf32>) -> tensor<2x4xf32>"
    assert subject["kernel"]["global_size"] == [8] and not subject["kernel"]["local_size"]
    assert subject["kernel"]["defines"] == [["PARAM_alpha", "2.0f"]]


@pytest.mark.usefixtures("author")
def test_options_that_are_a_struct_come_from_a_file(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "struct").write_bytes(b"\1\0\0\0\7\0\0\0")
    (author / "k.cl").write_text("__kernel void k(__global float* y) { y[get_global_id(0)] = N; }")
    (author / "k.json").write_text(
        '{"version": 1, "sources": ["k.cl"], "arguments": [{"output": 0}],'
        '"defines": [{"name": "N", "field": {"type": "int32", "offset": 4}}]}'
    )
    assert litert_npu("layer", "check", "k.json", *SHAPES, "--options=@struct") == 0
    assert "N = 7" in capsys.readouterr().out


@pytest.mark.usefixtures("author")
def test_the_whole_text_is_shown_where_it_is_asked_for(
    litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "check", "Softsign.cl", *SHAPES, OPTIONS, "--show_kernel") == 0
    printed = capsys.readouterr().out
    assert "#define INPUT0_TYPE float" in printed and '#line 1 "Softsign.cl"' in printed
    assert SOFTSIGN in printed


def test_the_text_is_shown_where_it_does_not_build(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    broken = SOFTSIGN.replace("PARAM_alpha", "PARAM_alhpa")
    (author / "Softsign.cl").write_text(broken)
    check = ("layer", "check", "Softsign.cl", *SHAPES, OPTIONS)
    assert litert_npu(*check, "--show_kernel") == 1
    printed = capsys.readouterr().out
    assert "#define PARAM_alpha 2.0f" in printed and broken in printed
    assert "input 0: tensor<2x4xf32>" in printed and "kernel Softsign: 8 work items" in printed
    assert "FAILED: COMPILATION" in printed and "ok: the layer builds" not in printed
    (author / "Softsign.cl").write_text("no kernel at all")
    assert litert_npu(*check, "--show_kernel") == 1
    assert "FAILED: " in capsys.readouterr().out


def test_a_build_error_shows_the_author_s_own_line(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "Softsign.cl").write_text(SOFTSIGN.replace("PARAM_alpha", "PARAM_alhpa"))
    assert litert_npu("layer", "check", "Softsign.cl", *SHAPES, OPTIONS) == 1
    printed = capsys.readouterr().out
    assert "error: Softsign.cl:3:10: use of undeclared identifier 'PARAM_alhpa'" in printed
    assert "    3 |   y[i] = PARAM_alhpa * x[i]" in printed
    assert "\n      |          ^\n" in printed
    assert "Did you mean PARAM_alpha?" in printed


def test_a_build_error_in_a_header_shows_the_header_s_line(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "lib").mkdir()
    (author / "lib" / "f.h").write_text("// a comment\nfloat f(float x) { return x + ; }\n")
    (author / "Softsign.cl").write_text('#include "lib/f.h"\n' + SOFTSIGN)
    assert litert_npu("layer", "check", "Softsign.cl", *SHAPES, OPTIONS) == 1
    printed = capsys.readouterr().out
    assert "lib/f.h:2:" in printed and "    2 | float f(float x) { return x + ; }" in printed


MISFITS = {
    "number of arguments": (
        "__kernel void k(__global float* x) { x[0] = 1; }",
        "declares kernel 'k' with 1 argument, but the layer binds 2 arguments",
    ),
    "no kernel": (
        "float f(float x) { return x; }",
        "the asset has no kernel, but must have kernel 'k'",
    ),
}


@pytest.mark.parametrize(("text", "said"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_is_a_finding(
    author: Path, litert_npu: LitertNpu, capsys: Capture, text: str, said: str
) -> None:
    (author / "k.cl").write_text(text)
    assert litert_npu("layer", "check", "k.cl", *SHAPES) == 1
    printed = capsys.readouterr().out
    assert "FAILED: " in printed and said in printed


def test_an_op_that_fails_does_not_hide_the_next(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    broken = SOFTSIGN + "typedef char not_two[(int) PARAM_alpha > 1 ? -1 : 1];\n"
    (author / "Softsign.cl").write_text(broken)
    assert litert_npu("layer", "check", "Softsign.cl", "--model=model.tflite", "--report=json") == 1
    first, second = json.loads(capsys.readouterr().out)["subjects"]
    assert first["kernel"] and not first["problem"]
    assert not second["kernel"] and "Softsign.cl:5:" in second["problem"]


def test_parameters_that_do_not_meet_are_notes(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "k.cl").write_text(
        "#ifndef FILTER\n#define FILTER 1\n#endif\n"
        "__kernel void k(__global float* x, __global float* y) { y[0] = x[0] * FILTER * PAD; }"
    )
    defines = [
        {"name": "FILTRE", "value": 1},
        {"name": "PAD", "option": "Alpha", "default": 1},
    ]
    description = {"version": 1, "sources": ["k.cl"], "defines": defines}
    (author / "k.json").write_text(json.dumps(description))
    assert (
        litert_npu("layer", "check", "k.json", *SHAPES, '--options={"alpha": 2.0, "beta": 1}') == 0
    )
    printed = capsys.readouterr().out
    assert "the layer never uses the op's options 'alpha', 'beta'" in printed
    assert "no source uses define 'FILTRE' (did you mean 'FILTER'?)" in printed
    assert (
        "the op has no option 'Alpha', so the layer's defaults are used (did you mean 'alpha'?)"
        in printed
    )


def test_an_int_index_in_an_address_is_a_note_with_its_line(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    text = SOFTSIGN.replace("size_t i", "int i")
    (author / "Softsign.cl").write_text(text)
    check = ("layer", "check", "Softsign.cl", *SHAPES, OPTIONS)
    assert litert_npu(*check) == 0
    note = (
        "the kernel computes memory addresses from get_global_id in a type narrower than size_t: 'int i' "
        "(Softsign.cl:2). On a CPU, "
    )
    printed = capsys.readouterr().out
    assert f"  note: {note}" in printed and "ok: the layer builds" in printed
    assert litert_npu(*check, "--report=json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and any(n.startswith(note) for n in report["subjects"][0]["notes"])
    (author / "Softsign.cl").write_text(SOFTSIGN)
    assert litert_npu(*check) == 0
    assert "narrower than" not in capsys.readouterr().out


def test_an_op_of_dynamic_shape_is_checked_within_bounds(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4), shape_signature=(1, -1))
    y = b.tensor("y", "float32", (1, 4), shape_signature=(1, -1))
    b.custom("Softsign", [x], [y], options={"alpha": 1.0})
    b.output(y)
    write_model(b.build(), "dynamic.tflite")
    check = ("layer", "check", "Softsign.cl", "--model=dynamic.tflite")
    assert litert_npu(*check, "--shape_bounds=x:1x16") == 0
    printed = capsys.readouterr().out
    assert "kernel Softsign: x[1] work items" in printed
    assert (
        "float* x  <-  input 0: tensor<1x?xf32>; B,F,Y,X with sizes that are known only" in printed
    )
    assert litert_npu(*check) == 1
    assert "--shape_bounds" in capsys.readouterr().out
    run = ("layer", "run", *check[2:], "--repeat=0")  # runs with the shape in the model
    assert litert_npu(*run) == 0
    assert litert_npu(*run, "--shape_bounds=x:1x16") == 0
    capsys.readouterr()
    assert litert_npu(*run, "--shape_bounds=z:1x16") == 2
    assert "the model has no tensor 'z'" in capsys.readouterr().err


def test_ops_of_dynamic_shape_have_bounds_each(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    b = ModelBuilder()
    for name, rank in (("x", 1), ("z", 2)):
        x = b.input(name, "float32", (4,) * rank, shape_signature=(-1,) * rank)
        y = b.tensor(f"{name}_out", "float32", (4,) * rank, shape_signature=(-1,) * rank)
        b.custom("Softsign", [x], [y], options={"alpha": 1.0})
        b.output(y)
    write_model(b.build(), "dynamic.tflite")
    check = ("layer", "check", "Softsign.cl", "--model=dynamic.tflite", "--shape_bounds=x:16")
    assert litert_npu(*check, "--shape_bounds=z:8x8") == 0
    assert capsys.readouterr().out.count("ok: the layer builds") == 2
    assert litert_npu(*check, "--shape_bounds=x:8") == 2
    assert (
        "--shape_bounds gives tensor 'x' two different shapes: 16 and 8" in capsys.readouterr().err
    )


WRONG = {
    "no file": (["nothing.cl", *SHAPES], "NOT_FOUND: no such file (nothing.cl)"),
    "no such op": (
        ["Softsign.cl", "--model=model.tflite", "--op=Sinh"],
        "the model contains no op 'Sinh' (model.tflite). Set --op to an op of the model. The only custom op is "
        "Softsign.",
    ),
    "both": (["Softsign.cl", "--model=model.tflite", *SHAPES], "both --model, and shapes"),
    "no time": (["Softsign.cl", *SHAPES, "--timeout_s=0"], "timeout_s"),
}


@pytest.mark.usefixtures("author")
@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_give_a_message(
    litert_npu: LitertNpu, capsys: Capture, arguments: list[str], said: str
) -> None:
    assert litert_npu("layer", "check", *arguments) == 2
    printed = capsys.readouterr()
    assert said in printed.out + printed.err and "Traceback" not in printed.err


@pytest.mark.usefixtures("author")
def test_an_asset_of_an_unknown_kind_does_not_fit(litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu("layer", "check", "model.tflite", *SHAPES) == 1
    assert "cannot read a file with the suffix '.tflite' as a layer" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    """Of the vendor's modules, only the one with the options is imported, since `--help` shows them as flags."""
    code = (
        f"import sys; from litert_npu_tools.litert_npu import main; main(['x', 'layer', *{arguments}]);"
        "print([m for m in sys.modules if m.split('.')[0] in"
        " ('numpy', 'xdsl', 'pyopencl', 'vendor_reference')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    loaded = set(literal_eval(result.stdout.splitlines()[-1]))
    modules = ("compiler.reference_options", "compiler.half_tensors")
    options = {"vendor_reference", "vendor_reference.compiler"}
    options |= {f"vendor_reference.{module}" for module in modules}
    assert loaded == (options if len(arguments) > 1 else set())
