"""Tests that commands, newlines and escape sequences in names do not reach a terminal, a shell or a file."""

from __future__ import annotations

import ast
import csv
import io
import logging
import shlex
import subprocess
from pathlib import Path

import pytest
from litert_npu_tools.apply_plugin import guarded_main as apply_plugin_main
from litert_npu_tools.console import csv_text
from litert_npu_tools.log_handler import LogHandler

from litert.core.errors import LiteRtError
from litert.core.quoting import markdown_text, shell_word
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu

NAME = 'a\nFORGED \x1b[31m\x07\u202e`$(touch owned)`"\'"""*/ </script>\n```\n\\'
OP = f"op{NAME}"
KERNEL = (
    "__kernel void k(__global const float* x, __global float* y) {\n  y[get_global_id(0)] = 0;\n}\n"
)
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(in_folder: Path) -> str:
    b = ModelBuilder()
    x = b.input(f"x{NAME}", "float32", (1, 16))
    options: dict[str, FlexValue] = {f"k{NAME}": 0.5, "list\nFORGED": [1, 2]}
    y = b.custom(OP, [x], [(f"y{NAME}", "float32", (1, 16))], options=options)
    b.output(b.op("ABS", [y], [(f"z{NAME}", "float32", (1, 16))]))
    b.signature(f"sig{NAME}")
    b.metadata(f"meta{NAME}", b"x")
    built = b.build()
    built.subgraphs[0].name = f"main{NAME}"
    write_model(built, "hostile.tflite")
    (in_folder / "k.cl").write_text(KERNEL)
    return "hostile.tflite"


def write_hostile_files(folder: Path) -> dict[str, str]:
    """Writes two models of one op, for stock LiteRT and for the kernel `k.cl`; returns paths with a newline."""
    for word, op in (("FILE", "ABS"), ("CUSTOM", "k")):
        b = ModelBuilder()
        x = b.input("x", "float32", (1, 4))
        b.output((b.custom if op == "k" else b.op)(op, [x], [("y", "float32", (1, 4))]))
        b.signature("s")
        b.metadata("m", b"x")
        write_model(b.build(), f"a\nFORGED \x1b[31m\u202e{word}")
    (folder / "k.cl").write_text(KERNEL)
    return {word: f"a\nFORGED \x1b[31m\u202e{word}" for word in ("FILE", "CUSTOM", "OUT")}


def check_printed(text: str) -> None:
    assert text.strip() and all(c.isprintable() or c in "\n\t" for c in text)
    lines = text.splitlines()
    assert not [line for line in lines if line.startswith(("FORGED", "```"))], text


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", "--dump"],
        ["inspect", "--extract=none"],
        ["check"],
        ["coverage"],
        ["coverage", "--report=csv"],
        ["run", "--signature=none"],
        ["run", f"--npu_custom_op_info={OP},k.cl", "--input=none=x.npy"],
        ["run", f"--npu_custom_op_info={OP},none.cl"],
        ["benchmark", f"--npu_custom_op_info={OP},k.cl"],
        ["profile", f"--npu_custom_op_info={OP},k.cl", "--report=csv"],
    ],
    ids=lambda arguments: " ".join(arguments)[:20].split("=")[0],
)
def test_no_name_begins_a_line_or_moves_the_cursor(
    model: str, litert_npu: LitertNpu, capsys: Capture, arguments: list[str]
) -> None:
    litert_npu(arguments[0], model, *arguments[1:])
    printed = capsys.readouterr()
    check_printed(printed.out + printed.err)


@pytest.mark.parametrize("info", [f"{OP},k.cl", f"{OP},none.cl", "None,k.cl"])
def test_the_report_of_a_compilation_neither(model: str, capsys: Capture, info: str) -> None:
    flags = [f"--npu_custom_op_info={info}", "--nocheck_kernels"]
    apply_plugin_main(["apply_plugin", *flags, model, "out.tflite"])
    printed = capsys.readouterr()
    check_printed(printed.out + printed.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "FILE"],
        ["run", "FILE", "--output=OUT.npy"],
        ["profile", "FILE", "--runs=1", "--warm_up=0"],
        ["inspect", "FILE", "--extract=metadata:m", "--output=OUT"],
        ["compare", "FILE", "--all"],
        ["layer", "check", "k.cl", "--model=CUSTOM"],
        ["layer", "run", "k.cl", "--model=CUSTOM", "--repeat=1"],
        ["layer", "new", "--model=CUSTOM", "-o", "OUT"],
        ["layer", "stub", "--model=CUSTOM", "-o", "OUT"],
        ["layer", "build", "k.cl", "--model=CUSTOM", "-o", "OUT.bin"],
        ["vendor", "new", "Tin", "-o", "OUT"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_no_name_of_a_file_begins_a_line(
    in_folder: Path, litert_npu: LitertNpu, capfd: Capture, arguments: list[str]
) -> None:
    places = write_hostile_files(in_folder)
    for word, path in places.items():
        arguments = [text.replace(word, path) for text in arguments]
    assert litert_npu(*arguments) == 0
    printed = capfd.readouterr()
    assert "FORGED" in printed.out
    check_printed(printed.out + printed.err)


def test_no_name_of_a_file_is_a_line_of_a_kernels_program(in_folder: Path, capfd: Capture) -> None:
    model = write_hostile_files(in_folder)["CUSTOM"]
    name = "a\nFORGED.cl"
    (in_folder / name).write_text(KERNEL)
    assert apply_plugin_main(["apply_plugin", f"--npu_custom_op_info=k,{name}", model, "out"]) == 0
    printed = capfd.readouterr()
    check_printed(printed.out + printed.err)


@pytest.mark.parametrize("kind", ["cl", "json", "xml"])
def test_a_skeleton_has_the_names_as_data(
    model: str, in_folder: Path, litert_npu: LitertNpu, kind: str
) -> None:
    assert litert_npu("layer", "new", f"--model={model}", f"--kind={kind}", "-o", "new") == 0
    (source,) = in_folder.glob("new/*.cl")
    before, kernel, _ = source.read_text().partition("__kernel")
    assert kernel and all(line.startswith("//") for line in before.splitlines())
    (reference,) = in_folder.glob("new/*_reference.py")
    body = ast.parse(reference.read_text()).body
    assert [type(part) for part in body] == [ast.Expr, ast.Import, ast.FunctionDef]
    (readme,) = in_folder.glob("new/*.md")
    heading, _, block = readme.read_text().split("\n\n", 2)
    assert heading.startswith("# `op") and "\n" not in heading
    commands = block.removeprefix("```bash\n").removesuffix("```\n").splitlines()
    assert len(commands) == 4 and all(
        c.startswith(("litert-npu ", "apply_plugin ")) for c in commands
    )
    for command in commands[:3]:
        shown = subprocess.run(
            ["bash", "-c", f"litert-npu() {{ printf '%s\\0' \"$@\"; }}; {command}"],
            capture_output=True, check=True,
        )  # fmt: skip
        assert f"--op={OP}" in shown.stdout.decode().split("\0")
    assert not (in_folder / "new/owned").exists() and not (in_folder / "owned").exists()


def test_the_commands_of_a_stub_are_words(
    model: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "stub", f"--model={model}", "-o", "stub") == 0
    check_printed(printed := capsys.readouterr().out)
    assert f"--npu_custom_op_info={shell_word(f'{OP},stub')[:-5]}" in printed


def test_what_is_logged_is_printed_like_everything(capsys: Capture) -> None:
    handler = LogHandler()
    handler.emit(logging.LogRecord("x", logging.WARNING, "", 1, "no %s", (NAME,), None))
    check_printed(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("command", "info"), [("run", f"{OP},none.cl"), ("benchmark", "None,k.cl")]
)
def test_an_error_has_a_name_on_its_line(
    model: str, litert_npu: LitertNpu, capsys: Capture, command: str, info: str
) -> None:
    assert litert_npu(command, model, f"--npu_custom_op_info={info}") != 0
    errors = capsys.readouterr().err.splitlines()
    assert [line for line in errors if "FORGED" in line and "op" in line]
    assert not [line for line in errors if line.strip().startswith(("FORGED", "```"))], errors


def test_place_and_hint_of_an_error_are_on_its_line() -> None:
    text = str(LiteRtError(Status.NOT_FOUND, "no op", f"in {NAME}", f"Name one of {NAME}."))
    assert "\n" not in text and "\\nFORGED" in text


@pytest.mark.parametrize("text", ["plain", "", "two words", "it's", "$(x)", NAME, "\udcff\x01'\\"])
def test_a_word_is_what_bash_reads(text: str) -> None:
    word = shell_word(text)
    assert "\n" not in word
    shown = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert shown.stdout == text.encode("utf-8", "surrogateescape")
    assert not text.isprintable() or word == shlex.quote(text)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("CONV_2D", "CONV_2D"), ("my op", "my op"), ("<b>", "`<b>`"), ("a`b\n", "`a?b\\n`")],
)
def test_a_name_in_markdown_is_no_markup(name: str, shown: str) -> None:
    assert markdown_text(name) == shown


def test_a_table_has_no_formula_and_a_line_for_each_row() -> None:
    text = csv_text([["name", "n"], ["=1+1", -2], ["a\nb,c", 3.5], ["@x", None]])
    assert [*csv.reader(io.StringIO(text))] == [
        ["name", "n"], ["'=1+1", "-2"], ["a\\nb,c", "3.5"], ["'@x", ""],
    ]  # fmt: skip
    assert len(text.splitlines()) == 4
