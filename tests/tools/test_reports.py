"""Tests that `--report=json` and exit statuses are as `docs/reports.md` documents them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import numpy as np
import pytest
from litert_npu_tools import apply_command_line, apply_plugin, litert_npu
from litert_npu_tools.command import Command, CommandGroup, run_guarded

from litert.core.errors import LiteRtError
from litert.core.quoting import continued
from litert.core.status import Status
from tests.tools.report_schemas import REPORTS, error_schema, file_name, schema_of
from vendor_reference.authoring import sanitizer

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reports.md").read_text()

KERNEL = """__kernel void K(const __global float* x, __global float* y) {
  y[get_global_id(0)] = 2 * x[get_global_id(0)];
}
"""
REFERENCE = "def twice(inputs, options): return 2 * inputs[0]\ndef thrice(inputs, options): return 3 * inputs[0]\n"
SHAPES = "--inputs=2x4xf32 --outputs=2x4xf32"

# The command, its exit status and its further arguments.
CASES = [
    ("apply_plugin", 0, "--soc_manufacturer=Null --npu_custom_op_info=Copy,copy.txt raw.tflite o"),
    ("apply_plugin --cmd=info", 0, ""),
    ("apply_plugin --list_transformations", 0, ""),
    ("litert-npu run", 0, "original.tflite --golden=golden.npz --output=o.npz"),
    ("litert-npu run", 1, "original.tflite --golden=wrong.npz"),
    ("litert-npu run", 2, "none.tflite"),
    ("litert-npu benchmark", 0, "copying.tflite --runs=2 --warm_up=0"),
    ("litert-npu benchmark", 0, "original.tflite --runs=2 --warm_up=0"),
    ("litert-npu benchmark", 2, "none.tflite"),
    ("litert-npu profile", 0, "copying.tflite --runs=50"),
    ("litert-npu profile", 2, "none.tflite"),
    ("litert-npu coverage", 0, "--soc_manufacturer=Null original.tflite raw.tflite"),
    ("litert-npu coverage", 1, "--soc_manufacturer=Null raw.tflite --fail_under=1"),
    ("litert-npu coverage", 2, "--soc_manufacturer=Nobody raw.tflite"),
    ("litert-npu compare", 0, "original.tflite --reference_ops=all"),
    (
        "litert-npu compare",
        1,
        "raw.tflite --npu_custom_op_info=Copy,K.cl --reference_function=Copy,ref.py:thrice",
    ),
    ("litert-npu compare", 2, "none.tflite"),
    ("litert-npu inspect", 0, "copying.tflite"),
    ("litert-npu inspect", 0, "original.tflite"),
    ("litert-npu inspect", 2, "none.tflite"),
    ("litert-npu transform", 0, "original.tflite o.tflite"),
    ("litert-npu transform", 2, "none.tflite o.tflite"),
    ("litert-npu transform --list_transformations", 0, ""),
    ("litert-npu diff", 0, "original.tflite original.tflite"),
    ("litert-npu diff", 1, "raw.tflite copying.tflite"),
    ("litert-npu diff", 2, "none.tflite original.tflite"),
    ("litert-npu check", 0, "copying.tflite"),
    ("litert-npu check", 1, "raw.tflite"),
    ("litert-npu check", 2, "none.tflite"),
    ("litert-npu check", 2, "."),
    ("litert-npu check", 2, "--dispatch_library_path"),
    ("litert-npu layer check", 0, f"K.cl {SHAPES}"),
    ("litert-npu layer check", 1, f"broken.cl {SHAPES}"),
    ("litert-npu layer check", 2, f"none.cl {SHAPES}"),
    ("litert-npu layer check", 2, f". {SHAPES}"),
    ("litert-npu layer check --sanitize", 0, f"K.cl {SHAPES}"),
    ("litert-npu layer check --sanitize", 1, f"past.cl {SHAPES}"),
    ("litert-npu layer run", 0, f"K.cl {SHAPES} --repeat=2 --reference=ref.py:twice"),
    ("litert-npu layer run", 1, f"K.cl {SHAPES} --repeat=0 --reference=ref.py:thrice"),
    ("litert-npu layer run", 2, f"broken.cl {SHAPES}"),
    ("litert-npu layer tune", 0, f"K.cl {SHAPES} --candidates=1 --dry_run"),
    ("litert-npu layer tune", 2, f"broken.cl {SHAPES}"),
    ("litert-npu vendor check", 0, "Null --rule=compile.ok --npu_custom_op_info=Copy,ref.py"),
    ("litert-npu vendor check", 1, "Null --rule=compile.ok"),
    ("litert-npu vendor check", 1, "LiteRtCompilerPlugin_Bad.py"),
    ("litert-npu vendor check", 2, "Nobody"),
    ("litert-npu vendor check", 2, "LiteRtCompilerPlugin_Bad.py --rule=api"),
    ("litert-npu tune", 0, "--reset"),
    ("litert-npu tune", 2, "now"),
    ("litert-npu info", 0, ""),
    ("litert-npu info", 2, "original.tflite"),
]


@pytest.fixture
def files(copying: str, original: str) -> None:
    """Writes the files that the cases name."""
    Path("K.cl").write_text(KERNEL)
    Path("broken.cl").write_text(KERNEL.replace("float* y", "floats* y"))
    Path("past.cl").write_text(KERNEL.replace("y[", "y[2 + "))
    Path("ref.py").write_text(REFERENCE)
    Path("LiteRtCompilerPlugin_Bad.py").write_text("COMPILER_PLUGIN = None\n")
    for name, factor in (("golden", 0.5), ("wrong", 2.0)):
        x = np.ones((1, 4, 6, 3), np.float32)
        np.savez(f"{name}.npz", in0=x, out0=factor * x)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("command", "status", "more"), CASES)
def test_a_command_s_report_and_exit_status_are_as_documented(
    command: str, status: int, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--sanitize" in command and not sanitizer.has_simulator():
        pytest.skip("no OpenCL driver Oclgrind, the extra `sanitize`")
    line = shlex.split(f"{command} {more} --report=json")
    tool = apply_plugin if line[0] == "apply_plugin" else litert_npu
    assert tool.guarded_main(line) == status
    printed = capsys.readouterr()
    if status == 2:
        assert not _faults(printed.out, error_schema(is_open=False))
        error = json.loads(printed.out)
        assert error["exit_code"] == 2
        message = LiteRtError(Status[error["status"]], error["what"], error["where"], error["hint"])
        assert f"\n{continued(str(message))}\n" in f"\n{printed.err}"
        assert "Traceback" not in printed.err and "defect" not in printed.err
    else:
        assert not _faults(printed.out, schema_of(command, is_open=False))


def _faults(text: str, schema: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema)
    return [error.message for error in validator.iter_errors(json.loads(text))]


@pytest.mark.parametrize(
    ("line", "has_json"),
    [
        ("apply_plugin none.tflite o --report=json", True),
        ("apply_plugin none.tflite o --report json", True),
        ("apply_plugin none.tflite o -report=json", True),
        ("apply_plugin none.tflite o --report=json --err=-", True),
        ("apply_plugin none.tflite o --report=json --nothing", True),
        ("apply_plugin none.tflite o --report=json --soc_manufacturer=Nobody", True),
        ("apply_plugin none.tflite o --report=text", False),
        ("apply_plugin none.tflite o", False),
        ("apply_plugin none.tflite - --report=json", False),  # standard output is for the model
        ("apply_plugin none.tflite --o=- --report=json", False),
        ("litert-npu coverage none.tflite --report=csv", False),
        ("litert-npu layer chek --report=json", True),
        ("litert-npu layer check --watchh --report=json", True),
    ],
)
@pytest.mark.usefixtures("in_folder")
def test_an_error_is_one_json_object_where_a_report_would_be_json(
    line: str, has_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.split()
    tool = apply_plugin if words[0] == "apply_plugin" else litert_npu
    assert tool.guarded_main(words) == 2
    printed = capsys.readouterr()
    assert printed.err
    if not has_json:
        assert not printed.out
        return
    assert not _faults(printed.out, error_schema(is_open=False))
    error = json.loads(printed.out)
    where = f" ({error['where']})" if error["where"] else ""
    hint = f" {error['hint']}" if error["hint"] else ""
    assert printed.err == f"{error['status']}: {error['what']}{where}.{hint}\n"


@pytest.mark.parametrize(
    ("raised", "status", "exit_code"),
    [(KeyboardInterrupt("Half is kept"), "CANCELLED", 130), (ZeroDivisionError(), "UNKNOWN", 2)],
    ids=["Ctrl-C", "defect"],
)
def test_every_end_of_a_command_has_its_json(
    raised: BaseException, status: str, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(_: Sequence[str]) -> int:
        raise raised

    assert run_guarded(main, ["litert-npu", "--report=json"]) == exit_code
    error = json.loads(capsys.readouterr().out)
    assert (error["status"], error["exit_code"]) == (status, exit_code) and error["hint"]


def test_the_schema_of_errors_is_in_the_docs(request: pytest.FixtureRequest) -> None:
    path = DOCS / "schemas" / "error.json"
    if request.config.getoption("--golden"):
        path.write_text(json.dumps(error_schema(), indent=1) + "\n")
    assert json.loads(path.read_text()) == error_schema(), "`make golden` writes it"
    assert "(schemas/error.json)" in PAGE


@pytest.mark.parametrize("command", REPORTS)
def test_the_schemas_in_the_docs_are_those_of_the_reports(
    command: str, request: pytest.FixtureRequest
) -> None:
    schema = schema_of(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    path = DOCS / "schemas" / file_name(command)
    if request.config.getoption("--golden"):
        path.write_text(json.dumps(schema, indent=1) + "\n")
    assert json.loads(path.read_text()) == schema, "`make golden` writes it"


def test_each_field_of_a_report_is_explained() -> None:
    fields = {
        f"{kind}.{name}": field
        for command in REPORTS
        for kind, definition in schema_of(command)["$defs"].items()
        for name, field in definition["properties"].items()
    }
    unexplained = [name for name, field in fields.items() if not field.get("description")]
    assert not unexplained, "name them in `Attributes:` of their dataclass"


def reporting_commands(program: str, group: CommandGroup) -> Iterator[str]:
    for name in group.commands:
        module = group.modules.format(name)
        command = import_module(module, litert_npu.__package__).COMMAND
        if isinstance(command, CommandGroup):
            yield from reporting_commands(f"{program} {name}", command)
        elif isinstance(command, Command) and any(f.name == "report" for f in command.flags):
            yield f"{program} {name}"


def test_each_command_with_a_report_has_a_schema_and_cases() -> None:
    group = CommandGroup("", ".{}_command", litert_npu.COMMANDS)
    commands = {"apply_plugin", *reporting_commands("litert-npu", group)}
    assert "report" in apply_command_line.define_flags()
    assert commands <= REPORTS.keys()
    tested = {(command, status) for command, status, _ in CASES}
    assert {(command, 0) for command in REPORTS} <= tested
    assert {(command, 2) for command in commands - {"apply_plugin"}} <= tested


def test_the_page_lists_each_schema_and_what_exit_status_1_says() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| \[.*\]\(schemas/(\S+)\) \| (.*) \|$", PAGE, re.MULTILINE)
    assert {(command, name) for command, name, _ in rows} == {(c, file_name(c)) for c in REPORTS}
    files = {p.name for p in (DOCS / "schemas").iterdir()}
    assert files == {"error.json", *(name for _, name, _ in rows)}
    with_answer = {command for command, status, _ in CASES if status == 1}
    assert with_answer == {command for command, _, answer in rows if answer != "-"}
