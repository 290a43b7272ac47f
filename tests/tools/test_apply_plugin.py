"""Tests the command `apply_plugin`: its flags, what it prints, and which files remain when it fails."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from litert_npu_tools.apply_plugin import guarded_main

from litert.core.status import Status
from litert.model.assets import read_assets
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.stamp import Stamp, read_stamp
from litert.model.writer import write_model

VENDORS = Path(__file__).parents[1] / "compiler_plugin" / "vendors"
FAKE = [f"--libs={VENDORS}", "--soc_manufacturer=Fake"]
COMMAND = [sys.executable, "-m", "litert_npu_tools.apply_plugin"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The path of a model with two custom ops, A and B."""
    builder = ModelBuilder()
    a = builder.custom("A", [builder.input("x", "float32", (4,))], [("a", "float32", (4,))])
    builder.output(builder.custom("B", [a], [("b", "float32", (4,))]))
    path = tmp_path / "in.tflite"
    write_model(builder.build(), path)
    return path


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "my kernel, v2.cl"
    path.write_bytes(b"kernel")
    return path


def apply(*arguments: str | Path) -> int:
    status: int = guarded_main(["apply_plugin", *map(str, arguments)])
    return status


Capture = pytest.CaptureFixture[str]


def test_the_guides_command_line_compiles(
    source: Path, kernel: Path, tmp_path: Path, capsys: Capture
) -> None:
    output = tmp_path / "out.bin"
    arguments = [
        f"--libs={VENDORS}",
        "--models=F2",
        "--soc_manufacturer=Fake",
        f"--npu_custom_op_info=A,{kernel}",
        f"--npu_custom_op_info=B,{kernel}",
    ]
    assert apply(*arguments, source, output) == 0
    with read_model(output) as model:
        assert read_stamp(model) == Stamp("Fake", "F2")
        assert [(asset.name, bytes(asset.blob)) for asset in read_assets(model)] == [
            ("A", b"kernel"),
            ("B", b"kernel"),
        ]
    printed = capsys.readouterr()
    assert "NPU: 2 of 2 ops in 1 call" in printed.out and f"Wrote {output}" in printed.out
    assert not printed.err


def test_stocks_command_line_gives_the_same_file(source: Path, tmp_path: Path) -> None:
    guide, stock = tmp_path / "guide.bin", tmp_path / "stock.bin"
    assert apply(*FAKE, "--models=F2", source, guide) == 0
    assert apply(*FAKE, "--cmd=apply", f"--model={source}", f"--o={stock}", "--soc_model=F2") == 0
    assert guide.read_bytes() == stock.read_bytes()


def test_flags_may_follow_the_paths_and_agree_with_them(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.bin"
    assert apply(source, output, *FAKE, f"--model={source}", f"--o={output}", "--err=none") == 0
    assert output.exists()


def test_paths_that_look_like_flags_stand_behind_two_dashes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source.rename("--in.tflite")
    assert apply(*FAKE, "--", "--in.tflite", "--out.bin") == 0
    assert (tmp_path / "--out.bin").exists()


def test_a_vendors_options_reach_it(source: Path, tmp_path: Path, capsys: Capture) -> None:
    assert apply(*FAKE, "--fake_ops=B", "--fake-refuse=A", source, tmp_path / "out.bin") == 0
    assert "1 A: a custom op that Fake does not know" in capsys.readouterr().out


def test_the_report_is_json_for_machines(source: Path, tmp_path: Path, capsys: Capture) -> None:
    assert apply(*FAKE, "--fake_ops=B", "--report=json", source, tmp_path / "out.bin") == 0
    report = json.loads(capsys.readouterr().out)
    assert [(op["name"], bool(op["call"])) for op in report["ops"]] == [("A", False), ("B", True)]
    assert report["output_size"] == (tmp_path / "out.bin").stat().st_size


def test_the_report_goes_where_err_says(source: Path, tmp_path: Path, capsys: Capture) -> None:
    assert apply(*FAKE, f"--err={tmp_path / 'report'}", source, tmp_path / "a.bin") == 0
    assert apply(*FAKE, "--err=--", source, tmp_path / "b.bin") == 0
    printed = capsys.readouterr()
    assert not printed.out
    assert "a.bin" in (tmp_path / "report").read_text()
    assert "b.bin" in printed.err and "a.bin" not in printed.err


def test_a_model_can_go_to_the_standard_output(source: Path, tmp_path: Path) -> None:
    apply(*FAKE, source, tmp_path / "out.bin")
    done = subprocess.run([*COMMAND, *FAKE, source, "-"], capture_output=True, check=True)
    assert done.stdout == (tmp_path / "out.bin").read_bytes()
    assert b"Wrote -: " in done.stderr


def test_a_model_that_the_standard_output_has_no_room_for_is_an_error(source: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *FAKE, source, "-"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert "FILE_IO: cannot write: no space left on device (standard output)" in done.stderr


def test_a_report_that_its_place_has_no_room_for_is_an_error(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    status = apply(*FAKE, "--err=/dev/full", source, tmp_path / "out.tflite")
    assert status == 2
    assert "cannot write: no space left on device (/dev/full)" in capsys.readouterr().err


def test_a_folder_of_libs_without_plugins_is_a_warning_in_the_report(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "empty").mkdir()
    libs = f"--libs={VENDORS},{tmp_path / 'empty'}"
    assert apply(libs, "--soc_manufacturer=Fake", source, "none") == 0
    assert (
        f"Warning: {tmp_path / 'empty'}: no file in this folder or its subfolders has the name of a "
        "compiler plugin"
    ) in capsys.readouterr().out


def test_nothing_is_written_to_none(source: Path, capsys: Capture) -> None:
    assert apply(*FAKE, source, "none") == 0
    assert "Nothing was written" in capsys.readouterr().out
    assert list(source.parent.iterdir()) == [source]


def test_info_lists_plugins_as_stock_does(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "LiteRtCompilerPluginBroken.py").write_text("import no_such_driver")
    assert apply("--cmd=info", f"--libs={VENDORS},{tmp_path}") == 0
    lines = capsys.readouterr().out.splitlines()
    assert '< LiteRtCompilerPlugin > "Fake" | "F1", "F2"' in lines
    assert lines[-1].startswith("< not loaded > ") and "no_such_driver" in lines[-1]
    assert apply("--cmd=info", "--report=json", f"--o={tmp_path / 'info.json'}") == 0
    found = {info["soc_manufacturer"] for info in json.loads((tmp_path / "info.json").read_text())}
    assert {"Null", "Reference"} <= found


def test_partition_compile_and_noop_are_commands(source: Path, tmp_path: Path) -> None:
    paths = {cmd: tmp_path / cmd for cmd in ("partition", "compile", "noop")}
    for cmd, path in paths.items():
        assert apply(*FAKE, f"--cmd={cmd}", source, path, "--err=none") == 0
    with read_model(paths["partition"]) as model:
        assert [[op.name for op in s.ops] for s in model.subgraphs] == [["DISPATCH_OP"], ["A", "B"]]
    assert paths["compile"].read_bytes() == b"FAKE\nSubgraph_0: ['A', 'B']"
    assert paths["noop"].read_bytes() == source.read_bytes()


def test_each_command_says_which_flags_have_no_effect_on_it(
    source: Path, kernel: Path, tmp_path: Path, capsys: Capture
) -> None:
    flags = (f"--npu_custom_op_info=A,{kernel}", "--require_npu=A", "--dump_kernels")
    idle = {
        "noop": ["npu_custom_op_info", "require_npu", "dump_kernels"],
        "partition": ["dump_kernels"],
        "compile": ["require_npu"],
    }
    for cmd, names in idle.items():
        assert apply(*FAKE, f"--cmd={cmd}", source, tmp_path / cmd, *flags) == 0
        does = "compiles whole subgraphs" if cmd == "compile" else "compiles nothing"
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if "no effect" in line] == [
            f"Warning: --{name} has no effect with --cmd={cmd}, which {does}" for name in names
        ]


def test_an_op_that_nothing_runs_is_the_report_s_last_line(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    output = tmp_path / "out.bin"
    assert apply(*FAKE, "--fake_ops=A", source, output) == 0
    said = "neither the NPU nor stock LiteRT's CPU kernels can run op B"
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"Warning: {said}.")
    output.unlink()
    for cmd in ("apply", "partition"):
        flags = [f"--cmd={cmd}", "--fake_ops=A", "--require_runnable"]
        assert apply(*FAKE, *flags, source, output) == 2
        assert said in capsys.readouterr().err and not output.exists()
    assert apply(*FAKE, "--fake_ops=A", "--report=json", source, output) == 0
    assert json.loads(capsys.readouterr().out)["not_runnable"] == ["B"]
    assert apply(*FAKE, "--fake_ops=A,B", "--require_runnable", source, output) == 0
    assert "neither" not in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_says_all_flags(capsys: Capture, flag: str) -> None:
    assert apply(flag) == 0
    text = capsys.readouterr().out
    for flag in ("--cmd", "--models", "--npu_custom_op_info", "--[no]check_kernels", "--o "):
        assert flag in text
    assert max(map(len, text.splitlines())) <= 105


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["IN"], Status.INVALID_TOOL_CONFIG, "--cmd=apply needs an output file"),
        (["--cmd=noop"], Status.INVALID_TOOL_CONFIG, "--cmd=noop needs a model"),
        (["--cmd=info", "IN"], Status.INVALID_TOOL_CONFIG, "needs no model"),
        (
            ["--cmd=melt", "IN", "OUT"],
            Status.INVALID_TOOL_CONFIG,
            "Allowed values: apply, partition",
        ),
        (["IN", "OUT", "more"], Status.INVALID_TOOL_CONFIG, "3 arguments"),
        (["--models=F1", "--soc_model=F2", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "'F1'"),
        (["--model=other", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "Both have the same meaning"),
        (["--o=other", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "Both have the same meaning"),
        (["--plugin_timeout=0", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "seconds from 0.001"),
        (["--plugin_timeout=nan", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "seconds from 0.001"),
        (
            ["--plugin_timeout=inf", "IN", "OUT"],
            Status.INVALID_TOOL_CONFIG,
            "--plugin_timeout=inf: the flag needs a number of seconds from 0.001 to 10000000",
        ),
        (["--soc_model=F9", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "The SoC models are F1, F2"),
        (["--npu_custom_op_inf=A,k", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "Did you mean"),
        (["--other_ops=A", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "no flag '--other_ops=A'"),
        (["--fake_a=1", "--fake_a=2", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "twice"),
        (
            ["--subgraphs=a", "IN", "OUT"],
            Status.INVALID_TOOL_CONFIG,
            "'a' is not the index of a subgraph (--subgraphs)",
        ),
        (
            ["--subgraphs=5", "IN", "OUT"],
            Status.INVALID_TOOL_CONFIG,
            "subgraph index 5 is out of range: the only subgraph has index 0",
        ),
        (["--compiler_options_max_partitions=-1", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "-1"),
        (["--partition_strategy=x", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "weakly_connected"),
        (["--npu_custom_op_info=A", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "no comma"),
        (
            ["--npu_custom_op_info=A k.cl", "IN", "OUT"],
            Status.INVALID_TOOL_CONFIG,
            "has no comma. Write the op and the path of its asset with a comma between them, as in "
            "A,k.cl.",
        ),
        (
            ["--npu_custom_op_info", "A", "k.cl", "IN", "OUT"],
            Status.INVALID_TOOL_CONFIG,
            "--npu_custom_op_info='A' has no comma.",
        ),
        (["--npu_custom_op_info=,k", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "no op"),
        (["--npu_custom_op_info=A,", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "no path"),
        (["--npu_custom_op_info=A,missing", "IN", "OUT"], Status.NOT_FOUND, "asset file of op 'A'"),
        (
            ["--npu_custom_op_info=A,IN", "--npu_custom_op_info=A,OUT", "IN", "OUT"],
            Status.INVALID_TOOL_CONFIG,
            "custom op 'A' was given two assets",
        ),
        (["missing", "OUT"], Status.NOT_FOUND, "no such file (missing)."),
        (["-", "OUT"], Status.NOT_FOUND, "no such file (-). Write the input to a file first"),
        (
            ["/dev/null", "OUT"],
            Status.INVALID_ARGUMENT,
            "the path is not a regular file (/dev/null). Write the input",
        ),
        (["FOLDER", "OUT"], Status.INVALID_ARGUMENT, "the path is a folder, not a file"),
        (["JUNK", "OUT"], Status.INVALID_FLATBUFFER, "not a TFLite model"),
        (["CUT", "OUT"], Status.INVALID_FLATBUFFER, "cut.tflite"),
        (["IN", "IN"], Status.INVALID_ARGUMENT, "the output file is also an input file"),
        (["IN", "FOLDER"], Status.INVALID_ARGUMENT, "the output path is a folder"),
        (["IN", "FOLDER/no/out"], Status.NOT_FOUND, "the directory of the output does not exist"),
        (["--err=FOLDER", "IN", "OUT"], Status.FILE_IO, "cannot write the report"),
        (
            ["--err=FOLDER/no/report", "IN", "OUT"],
            Status.FILE_IO,
            "/folder/no' does not exist",
        ),
        (["--err=IN", "IN", "OUT"], Status.INVALID_ARGUMENT, "the report would replace"),
        (["--err=OUT", "IN", "OUT"], Status.INVALID_ARGUMENT, "the report would replace"),
        (
            ["--npu_custom_op_info=A,JUNK", "--err=JUNK", "IN", "OUT"],
            Status.INVALID_ARGUMENT,
            "the report would replace",
        ),
        (["--nocheck_kernels=1", "IN", "OUT"], Status.INVALID_TOOL_CONFIG, "--nocheck_kernels=1"),
        (["--soc_manufacturer=Nobody", "IN", "OUT"], Status.NOT_FOUND, "no usable compiler plugin"),
        (["--libs=missing", "IN", "OUT"], Status.NOT_FOUND, "no such folder"),
        (
            ["--require_npu=B", "--fake_ops=A", "IN", "OUT"],
            Status.UNSUPPORTED,
            "Reason: a custom op",
        ),
        (
            ["--fake_mode=compile_raises", "IN", "OUT"],
            Status.COMPILATION,
            "vendor 'Fake', in compile",
        ),
    ],
)
def test_bad_input_is_one_message_and_leaves_what_was_there(
    source: Path,
    tmp_path: Path,
    capsys: Capture,
    arguments: list[str],
    status: Status,
    says: str,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "junk").write_text("hello, I am no model at all")
    (tmp_path / "cut.tflite").write_bytes(source.read_bytes()[:100])
    output = tmp_path / "out.bin"
    output.write_text("old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    names = {"IN": source, "OUT": output, "FOLDER": folder}
    names |= {"JUNK": tmp_path / "junk", "CUT": tmp_path / "cut.tflite"}
    for word, path in names.items():
        arguments = [argument.replace(word, str(path)) for argument in arguments]
    assert apply(*FAKE, *arguments) == 2
    printed = capsys.readouterr()
    assert says in printed.err and printed.err.startswith(f"{status.name}: ")
    assert printed.err.count("\n") == 1 and "Traceback" not in printed.err
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}


def test_debug_shows_where_an_error_came_from(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert apply(*FAKE, "--fake_mode=compile_raises", "--debug", source, tmp_path / "out.bin") != 0
    error = capsys.readouterr().err
    assert "Traceback" in error and "KeyError" in error
    assert error.splitlines()[-1].startswith("COMPILATION: ")


def test_a_model_of_another_op_names_it_without_confusing_the_terminal(
    tmp_path: Path, capsys: Capture
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (4,))
    builder.output(builder.custom("\x1b[2JEvil\r", [x], [("y", "float32", (4,))]))
    write_model(builder.build(), tmp_path / "in.tflite")
    assert apply(*FAKE, "--fake_ops=A", tmp_path / "in.tflite", "none") == 0
    printed = capsys.readouterr().out
    assert "1 \\x1b[2JEvil\\r: a custom op" in printed and "\r" not in printed


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *FAKE, *map(str, arguments)], stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "kill"])
def test_an_interrupt_halfway_leaves_nothing(
    source: Path, tmp_path: Path, number: signal.Signals
) -> None:
    output, signs = tmp_path / "out.bin", tmp_path / "signs"
    output.write_text("old")
    process = start("--fake_mode=waits", f"--fake_sign={signs}", source, output)
    while not signs.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130 and error.startswith("CANCELLED: interrupted. ")
    assert error.endswith(f". {output} is unchanged\n")
    signs.unlink()
    assert output.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tflite", "out.bin"]


def test_a_full_disk_leaves_nothing(source: Path, kernel: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.bin"
    output.write_text("old")
    kernel.write_bytes(bytes(range(256)) * 8192)
    done = subprocess.run(
        [*COMMAND, *FAKE, f"--npu_custom_op_info=A,{kernel}", source, output],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"FILE_IO: cannot write: file too large ({output})")
    assert output.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_reader_that_has_gone_is_no_error(source: Path) -> None:
    done = subprocess.run(
        f"'{sys.executable}' -m litert_npu_tools.apply_plugin --help | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("Compiles") and not done.stderr


@pytest.mark.parametrize("cmd", ["--help", "--cmd=info", "--cmd=noop"])
def test_a_command_imports_only_what_it_needs(source: Path, cmd: str) -> None:
    program = (
        "import sys; from litert_npu_tools.apply_plugin import main; "
        f"main(['apply_plugin', '{cmd}', '--err=none'] + {[str(source)] if 'noop' in cmd else []}); "
        "print([m for m in ('numpy', 'flatbuffers', 'tflite', 'pyopencl', 'xdsl', 'cffi')"
        " if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == "[]\n"


def test_stock_reads_what_each_command_writes(
    source: Path,
    kernel: Path,
    tmp_path: Path,
    stock_apply_plugin: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    for cmd in ("apply", "partition", "noop"):
        output = tmp_path / cmd
        arguments = [f"--cmd={cmd}", f"--npu_custom_op_info=A,{kernel}", "--fake_ops=A"]
        assert apply(*FAKE, *arguments, "--err=none", source, output) == 0
        again = tmp_path / "again.tflite"
        done = stock_apply_plugin("--cmd=noop", f"--model={output}", f"--o={again}")
        assert done.returncode == 0
        with read_model(output) as ours, read_model(again) as theirs:
            assert [[op.name for op in s.ops] for s in theirs.subgraphs] == [
                [op.name for op in s.ops] for s in ours.subgraphs
            ]
            assert read_stamp(theirs) == read_stamp(ours)
            assert {m.name for m in theirs.metadata} == {m.name for m in ours.metadata}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--cmd=apply"], id="no model"),
        pytest.param(
            ["--cmd=apply", "--model=IN", "--o=OUT", "--soc_manufacturer=Nobody", "--libs=HERE"],
            id="no such vendor",
        ),
        pytest.param(["--cmd=noop", "--model=IN", "--o=OUT"], id="no-op"),
        pytest.param(["--cmd=info", "--libs=HERE"], id="info"),
    ],
)
def test_the_exit_status_is_0_where_stocks_is(
    source: Path,
    tmp_path: Path,
    stock_apply_plugin: Callable[..., subprocess.CompletedProcess[str]],
    arguments: list[str],
) -> None:
    names = {"IN": source, "OUT": tmp_path / "out.bin", "HERE": tmp_path}
    for word, path in names.items():
        arguments = [argument.replace(word, str(path)) for argument in arguments]
    has_failed = stock_apply_plugin(*arguments).returncode != 0
    assert apply(*arguments) == (2 if has_failed else 0)


def test_the_real_network_is_compiled(models: Path, tmp_path: Path, capsys: Capture) -> None:
    kernel = tmp_path / "k.cl"
    kernel.write_text("kernel")
    output = tmp_path / "out.bin"
    arguments = [
        "--soc_manufacturer=Null",
        f"--npu_custom_op_info=Convolution2DTransposeBias,{kernel}",
    ]
    assert apply(*arguments, models / "selfie_segmentation.tflite", output) == 0
    assert "CPU: 246 of 246 ops" in capsys.readouterr().out
    assert os.path.getsize(output) < 1.1 * os.path.getsize(models / "selfie_segmentation.tflite")
