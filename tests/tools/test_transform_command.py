"""Tests `litert-npu transform`, and the transformation flags that it shares with `apply_plugin`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from litert_npu_tools.apply_plugin import guarded_main
from litert_npu_tools.litert_npu import main

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model

VENDORS = Path(__file__).parents[1] / "compiler_plugin" / "vendors"
FAKE = [f"--libs={VENDORS}", "--soc_manufacturer=Fake"]
Capture = pytest.CaptureFixture[str]

TO_NEG = '''
    """ABS becomes NEG."""
    from compiler_plugin.transformations import Transformation

    class AbsToNeg(Transformation):
        """Makes NEG of each ABS. It is for tests."""

        def find_and_replace_pattern(self, graph):
            nodes = graph.get_op_nodes(op="ABS")
            for node in nodes:
                graph.replace_node(node, graph.create_op("NEG", [node.in_port(0).get_source()]))
            return len(nodes)

    class NegToAbs(Transformation):
        """Makes ABS of each NEG."""

        enabled = False

        def run_after(self):
            return [AbsToNeg]

        def find_and_replace_pattern(self, graph):
            nodes = graph.get_op_nodes(op="NEG")
            for node in nodes:
                graph.replace_node(node, graph.create_op("ABS", [node.in_port(0).get_source()]))
            return len(nodes)
'''


@pytest.fixture
def source(tmp_path: Path) -> Path:
    builder = ModelBuilder()
    a = builder.op("ABS", [builder.input("x", "float32", (4,))], [("a", "float32", (4,))])
    builder.output(builder.custom("A", [a], [("b", "float32", (4,))]))
    path = tmp_path / "in.tflite"
    write_model(builder.build(), path)
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine, in a folder" / "middle" / "abs_to_neg.py"
    path.parent.mkdir(parents=True)
    path.write_text(dedent(TO_NEG).lstrip())
    return path.parents[1]


def transform(*arguments: str | Path) -> int:
    status: int = main(["litert-npu", "transform", *map(str, arguments)])
    return status


def apply(*arguments: str | Path) -> int:
    status: int = guarded_main(["apply_plugin", *map(str, arguments)])
    return status


def refusal(*arguments: str | Path) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        transform(*arguments)
    return error.value


def op_names(path: Path) -> list[str]:
    with read_model(path) as model:
        return [op.name for op in model.ops()]


def test_a_folder_and_two_paths_are_enough(
    source: Path, mine: Path, tmp_path: Path, capsys: Capture
) -> None:
    output = tmp_path / "out.tflite"
    assert transform(source, output, f"--extensions={mine}") == 0
    assert op_names(output) == ["NEG", "A"]
    printed = capsys.readouterr()
    (line,) = [line for line in printed.out.splitlines() if "abs_to_neg" in line]
    assert "  middle      1 match, " in line and line.endswith(f"{mine}/middle/abs_to_neg.py")
    assert f"Wrote {output}" in printed.out and not printed.err


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("-abs_to_neg", ["ABS", "A"]),
        ("-middle", ["ABS", "A"]),
        ("-all", ["ABS", "A"]),
        ("neg_to_abs", ["ABS", "A"]),
        ("all,neg_to_abs", ["ABS", "A"]),
        ("-all,AbsToNeg", ["NEG", "A"]),
    ],
)
def test_transformations_are_switched_by_name_and_phase(
    source: Path, mine: Path, tmp_path: Path, selection: str, names: list[str]
) -> None:
    output = tmp_path / "out.tflite"
    arguments = [f"--extensions={mine}", f"--transformations={selection}", "--err=none"]
    assert transform(source, output, *arguments) == 0
    assert op_names(output) == names
    assert apply(*FAKE, "--fake_ops=A", source, output, *arguments) == 0
    assert op_names(output) == [names[0], "DISPATCH_OP"]


def test_an_order_against_the_rules_is_refused(source: Path, mine: Path) -> None:
    selection = "--transformations=neg_to_abs,abs_to_neg"
    error = refusal(source, "--o=none", f"--extensions={mine}", selection)
    assert error.status is Status.INVALID_TRANSFORMATION and "the command line" in error.what


def test_apply_runs_extensions_and_reports_them(
    source: Path, mine: Path, tmp_path: Path, capsys: Capture
) -> None:
    output = tmp_path / "out.bin"
    arguments = [*FAKE, "--fake_ops=A", "--report=json", f"--extensions={mine}"]
    assert apply(*arguments, source, output) == 0
    report = json.loads(capsys.readouterr().out)
    (item,) = report["transformations"]
    assert (item["name"], item["phase"], item["matches"]) == ("abs_to_neg", "middle", 1)
    assert [op["name"] for op in report["ops"]] == ["NEG", "A"]
    assert op_names(output) == ["NEG", "DISPATCH_OP"]


def test_a_command_that_compiles_nothing_says_what_flags_were_idle(
    source: Path, mine: Path, capsys: Capture
) -> None:
    assert apply("--cmd=noop", source, "none", f"--extensions={mine}", "--transformations=all") == 0
    text = capsys.readouterr().out
    assert "--extensions has no effect" in text and "--transformations has no effect" in text


@pytest.mark.parametrize("cmd", ["partition", "compile"])
def test_other_commands_of_apply_plugin_transform_too(
    source: Path, mine: Path, tmp_path: Path, capsys: Capture, cmd: str
) -> None:
    arguments = [*FAKE, f"--cmd={cmd}", f"--extensions={mine}"]
    assert apply(*arguments, source, tmp_path / "out.bin") == 0
    assert "abs_to_neg  middle      1 match" in capsys.readouterr().out


def test_what_is_there_is_listed(mine: Path, capsys: Capture) -> None:
    flags = [f"--extensions={mine}", "--list_transformations"]
    assert transform(*flags) == 0
    text = capsys.readouterr().out
    path = mine / "middle" / "abs_to_neg.py"
    assert f"Makes NEG of each ABS [{path}]" in text
    assert f"Makes ABS of each NEG (runs only if --transformations lists it) [{path}]" in text
    assert text.index("abs_to_neg ") < text.index("neg_to_abs ")
    assert apply(*flags) == 0
    assert capsys.readouterr().out == text
    assert transform(*flags, "--report=json") == 0
    infos = {info["name"]: info for info in json.loads(capsys.readouterr().out)}
    assert infos["neg_to_abs"] == {
        "name": "neg_to_abs",
        "phase": "middle",
        "enabled": False,
        "description": "Makes ABS of each NEG",
        "path": str(path),
    }


def test_a_model_can_go_to_the_standard_output(source: Path, mine: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.tflite"
    transform(source, output, f"--extensions={mine}", "--err=none")
    code = "from litert_npu_tools.litert_npu import run; run()"
    command = [sys.executable, "-c", code, "transform", str(source), "-", f"--extensions={mine}"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == output.read_bytes()
    assert b"Wrote -: " in done.stderr


def test_what_an_extension_prints_is_not_in_the_model(
    source: Path, mine: Path, tmp_path: Path
) -> None:
    path = mine / "middle" / "abs_to_neg.py"
    path.write_text(path.read_text().replace("return len(nodes)", "print('found', nodes)"))
    code = "from litert_npu_tools.litert_npu import run; run()"
    command = [sys.executable, "-c", code, "transform", str(source), "-", f"--extensions={mine}"]
    done = subprocess.run(command, capture_output=True, check=True)
    (tmp_path / "out.tflite").write_bytes(done.stdout)
    assert op_names(tmp_path / "out.tflite") == ["NEG", "A"] and b"found" in done.stderr


def test_dumps_go_beside_the_output(source: Path, mine: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.tflite"
    flags = [f"--extensions={mine}", "--dump_model_after=abs_to_neg", "--err=none"]
    assert transform(source, output, *flags) == 0
    (dump,) = (tmp_path / "out.tflite.dump").iterdir()
    assert op_names(dump) == ["NEG", "A"]
    assert transform(source, "none", *flags, f"--dump_folder={tmp_path / 'elsewhere'}") == 0
    assert (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "the command line has no model"),
        (["in"], "the command line has no output file"),
        (["in", "out", "more"], "accepts at most 2 arguments, but the command line has 3"),
        (["in", "out", "--o=other"], "--o is 'other'"),
        (["in", "out", "--fold_limit=-1"], "fold_limit"),
        (["in", "out", "--nope"], "nope"),
        (["in", "out", "--dump_folder=d"], "--dump_folder has no effect"),
        (
            ["in", "none", "--dump_model_after=all"],
            "the dump has no folder: the default folder is named",
        ),
        (["in", "--list_transformations"], "needs no model"),
        (["missing.tflite", "none"], "missing.tflite"),
        (["in", "none", "--input_shape=x"], "--input_shape contains 'x', which is not a shape"),
        (
            ["in", "none", "--input_shape=x:0x2"],
            "--input_shape contains 'x:0x2', which is not a shape",
        ),
        (
            ["in", "none", "--input_shape=x:1", "--input_shape=x:2"],
            "--input_shape gives tensor 'x' two different shapes: 1 and 2",
        ),
        (["in", "none", "--data_layout=NCWH"], "NCWH"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], what: str) -> None:
    assert what in str(refusal(*arguments))


def test_inputs_get_shapes_and_a_layout(tmp_path: Path) -> None:
    b = ModelBuilder()
    x, y = (b.input(name, "float32", (1, 2, 2, 3)) for name in ("x", "y"))
    b.output(b.op("ADD", [x, y], [("sum", "float32", (1, 2, 2, 3))]))
    write_model(b.build(), tmp_path / "in.tflite")
    shapes = ["--input_shape=x:1x8x6x3", "--input_shape=y:-1x8x6x3"]
    out = tmp_path / "out.tflite"
    assert not transform(tmp_path / "in.tflite", out, *shapes, "--data_layout=NCHW")
    with read_model(out) as model:
        main = model.subgraphs[0]
        assert [t.shape for t in (*main.inputs, *main.outputs)] == [(1, 3, 8, 6)] * 3
        assert main.inputs[1].shape_signature == (-1, 3, 8, 6)
    assert not apply(*FAKE, tmp_path / "in.tflite", out, "--input_shape=x:5x2x2x3")
    with read_model(out) as model:
        assert model.subgraphs[0].outputs[0].shape == (5, 2, 2, 3)


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--static_shape"], "--static_shape has no effect, since no transformation runs"),
        (["--fold_limit=0"], "--fold_limit has no effect, since no transformation runs"),
        (
            ["--dump_model_after=all"],
            "--dump_model_after has no effect, since no transformation runs",
        ),
        (["--dump_folder=d"], "--dump_folder has no effect"),
        (["--list_transformations"], "needs no model"),
        (["--transformations=nope"], "there is no transformation 'nope'"),
        (["--extensions=nowhere"], "no such folder"),
    ],
)
def test_apply_refuses_flags_that_would_do_nothing(
    source: Path, tmp_path: Path, capsys: Capture, flags: list[str], what: str
) -> None:
    assert apply(*FAKE, source, tmp_path / "out.bin", *flags) != 0
    assert what in capsys.readouterr().err
    assert not (tmp_path / "out.bin").exists()


def test_a_compiled_model_is_refused(source: Path, mine: Path, tmp_path: Path) -> None:
    compiled = tmp_path / "compiled.bin"
    assert apply(*FAKE, "--fake_ops=A", source, compiled, "--err=none") == 0
    error = refusal(compiled, tmp_path / "out.tflite", f"--extensions={mine}")
    assert error.status is Status.ALREADY_EXISTS and "Fake" in error.what
    assert not (tmp_path / "out.tflite").exists()


def test_the_output_and_the_report_replace_no_input(source: Path, tmp_path: Path) -> None:
    assert refusal(source, source).status is Status.INVALID_ARGUMENT
    error = refusal(source, tmp_path / "out.tflite", f"--err={source}")
    assert error.status is Status.INVALID_ARGUMENT and not (tmp_path / "out.tflite").exists()


def test_an_error_leaves_what_was_there(source: Path, mine: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.tflite"
    output.write_text("old")
    (mine / "middle" / "crash.py").write_text(dedent(TO_NEG).replace("return len(nodes)", "1 / 0")
        .replace("AbsToNeg", "Crash").replace("NegToAbs", "Other"))  # fmt: skip
    assert "ZeroDivisionError" in str(refusal(source, output, f"--extensions={mine}"))
    assert output.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in.tflite", "mine, in a folder", "out.tflite",
    ]  # fmt: skip


def test_without_the_flags_nothing_of_transformations_is_imported(
    source: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from litert_npu_tools.apply_plugin import guarded_main; status = guarded_main(sys.argv);"
        "print([m for m in sys.modules if m.startswith('compiler_plugin.transformations')]); sys.exit(status)"
    )
    arguments = [*FAKE, source, tmp_path / "out.bin", "--err=none"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_configuration_replaces_sub_graphs_and_says_what_the_model_does_not_have(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    descriptions: list[dict[str, object]] = [
        {"id": "Head", "match_kind": "scope", "instances": ["a", "c"], "op": "Head"},
        {
            "id": "Tail", "match_kind": "points", "op": "Tail",
            "instances": {"start_points": ["b"], "end_points": ["b"]},
        },
    ]  # fmt: skip
    config = tmp_path / "config.json"
    config.write_text(json.dumps(descriptions))
    output = tmp_path / "out.tflite"
    assert transform(f"--transformations_config={config}", source, output) == 0
    assert op_names(output) == ["Head", "Tail"]
    printed = capsys.readouterr()
    assert "no op of the model is in scope 'c'" in printed.out + printed.err
    config.write_text(json.dumps([{**descriptions[0], "op": None}]))
    error = refusal(f"--transformations_config={config}", source, output)
    assert error.status is Status.NOT_FOUND and "replacement_id 'Head'" in error.what
