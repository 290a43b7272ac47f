"""Tests `litert-npu vendor check` on whole vendors: ours, examples, a broken one, and Intel's in stock's wheel."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from litert_npu_tools.litert_npu import main

from litert.conformance.probe import OTHERS, probe_name
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.conformance.broken_libraries import DISPATCH, PLUGIN
from tests.exported_vendors import exported
from tests.vendor_reference.cpu_layers import library

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "examples" / "kernels" / "Sinh.cl"


def check(*arguments: object) -> int:
    status: int = main(["litert-npu", "vendor", "check", *map(str, arguments)])
    return status


def check_json(capsys: Capture, *arguments: object) -> dict[str, Any]:
    status = check(*arguments, "--report=json")
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == (not report["conforms"])
    return report


def broken_rules(report: dict[str, Any], outcome: str = "failed") -> set[str]:
    return {
        finding["rule"]
        for part in report["parts"]
        for finding in part["findings"]
        if finding["outcome"] == outcome
    }


def compared(report: dict[str, Any]) -> list[str]:
    """Returns the probes and models whose outputs were compared."""
    return [row_name(row) for row in report["compared"] if row["difference"] is not None]


def row_name(row: dict[str, Any]) -> str:
    is_probe = row["check"] != OTHERS
    name: str = probe_name(row["op"], row["types"], row["variant"]) if is_probe else row["variant"]
    return name


def why_not(report: dict[str, Any], name: str) -> str:
    """Returns the reason why a probe or a model was not compared."""
    (why,) = [row["why"] for row in report["compared"] if row_name(row) == name]
    assert isinstance(why, str)
    return why


def test_the_c_example_keeps_each_rule(c_vendor: Path, capsys: Capture) -> None:
    gain = f"Gain,{ROOT}/examples/06_c_vendor/gain.txt"
    report = check_json(capsys, c_vendor, f"--npu_custom_op_info={gain}", "--strict")
    assert not broken_rules(report) and report["counts"]["passed"] > 100 and not report["gaps"]
    assert compared(report) == [
        "MUL", "SUB", "MUL, one input", "SUB, then MUL, partition 0", "SUB, then MUL, partition 1",
        "SUB, from the second input", "MUL, 128 KiB", "SUB, 128 KiB",
    ]  # fmt: skip
    assert "LiteRT has no kernel for its custom op" in why_not(report, "Gain")
    assert why_not(report, "CONV_2D, SAME") == "the plugin does not take its ops"


def test_the_reference_vendor_keeps_each_rule(capsys: Capture) -> None:
    infos = [f"--npu_custom_op_info=Sinh,{KERNEL}", "--option=reference_ops=MUL"]
    report = check_json(capsys, "Reference", *infos, "--strict")
    assert not broken_rules(report) and report["counts"]["passed"] > 100
    assert report["vendor"] == "Reference"


def test_a_vendor_in_two_python_files_is_found_in_its_folder(capsys: Capture) -> None:
    folder = ROOT / "examples" / "03_vendor"
    report = check_json(capsys, folder, f"--npu_custom_op_info=Gain,{folder}/gain.json")
    assert report["vendor"] == "Acme" and not broken_rules(report)


def test_a_vendor_in_python_keeps_each_rule_as_shared_libraries_too(capsys: Capture) -> None:
    folder = ROOT / "examples" / "03_vendor"
    kinds = {"compiler_plugin": "CompilerPlugin", "dispatch": "Dispatch"}
    libraries = [
        exported(kind, str(folder / f"LiteRt{name}_Acme.py")) / f"libLiteRt{name}_Acme.so"
        for kind, name in kinds.items()
    ]
    infos = f"--npu_custom_op_info=Gain,{folder}/gain.json"
    report = check_json(capsys, *libraries, infos, "--strict")
    assert not broken_rules(report) and report["counts"]["passed"] > 100


def test_the_null_vendor_takes_calls_of_any_number_of_inputs(capsys: Capture) -> None:
    report = check_json(capsys, "Null", f"--npu_custom_op_info=Copy,{ROOT}/LICENSE")
    assert broken_rules(report) == {"invocation.counts"}


def test_intels_libraries_are_reported_as_they_are(intel: Path, capsys: Capture) -> None:
    libraries = sorted(intel.glob("*/libLiteRt*.so"))
    groups = (
        "result",
        "requirements",
        "buffers",
        "attach",
        "detach",
        "invocation",
        "invoke",
        "values",
    )
    rules = [f"--rule={group}" for group in groups]  # rules about NULL would end many processes
    options = ["--option=intel_openvino_graph_backends=cpu", *rules]
    report = check_json(capsys, *libraries, *options)
    # On CPUs without VNNI, the vendor's kernels saturate: "values.accumulation".
    assert broken_rules(report) - {"values.accumulation"} == {
        "result.nothing",  # stock's apply_plugin_main fails if no op is selected
        "invoke.missing",  # the vendor runs on its own memory
        "invocation.function",  # the vendor ignores the name
        "invocation.counts",  # the vendor ignores the number of inputs
    }
    assert broken_rules(report, "note") == {"requirements.index", "result.index"}


def test_a_failing_line_says_what_the_contract_is_and_where(
    broken_vendor: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("BROKEN_RULE", "invoke.repeatable")
    assert check(broken_vendor, "--rule=invoke.repeatable") == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = lines.index("FAILED  invoke.repeatable")
    assert lines[at + 1].startswith("litert_npu/dispatch.h:")
    assert "gives the same outputs for the same inputs, even after" in lines[at + 1]
    assert lines[at + 3].startswith(
        "- the outputs of the third run differ from the outputs of the first"
    )
    assert lines[-1].startswith("Broken breaks the contract: ")


def test_a_recommendation_fails_only_where_all_are_rules(
    broken_vendor: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("BROKEN_RULE", "result.index")
    arguments = (broken_vendor / PLUGIN, "--rule=result.index")
    report = check_json(capsys, *arguments)
    assert report["conforms"] and broken_rules(report, "note") == {"result.index"}
    assert broken_rules(check_json(capsys, *arguments, "--strict")) == {"result.index"}


def test_models_of_the_users_are_checked_with(
    broken_vendor: Path, tmp_path: Path, capsys: Capture
) -> None:
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", (3, 5)), builder.input("z", "float32", (3, 5))
    builder.output(builder.op("MUL", [x, z], [("y", "float32", (3, 5))]))
    write_model(builder.build(), tmp_path / "mine.tflite")
    report = check_json(capsys, broken_vendor, f"--model={tmp_path}/mine.tflite", "--rule=invoke")
    assert report["conforms"]
    assert compared(report)[:2] == ["mine.tflite", "MUL"]


def test_what_a_vendor_prints_as_it_fails_is_shown_with_it(
    c_vendor: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "gain.txt").write_text("loud")
    arguments = (c_vendor, f"--npu_custom_op_info=Gain,{tmp_path}/gain.txt")
    report = check_json(capsys, *arguments)
    said = "ERROR: [Cobalt] the asset of op Gain is missing or not a number"
    findings = [finding for part in report["parts"] for finding in part["findings"]]
    printed = {f["rule"]: f["printed"] for f in findings if f["printed"]}
    assert printed["invocation.ok"] == said
    assert not any(f["printed"] for f in findings if f["outcome"] != "failed")
    assert check(*arguments) == 1
    assert f"            | {said}\n" in capsys.readouterr().out


def test_an_asset_that_nothing_was_run_with_is_named(broken_vendor: Path, capsys: Capture) -> None:
    (broken_vendor / "ref.py").write_text("def same(inputs, options):\n    return inputs[0]\n")
    info = f"--npu_custom_op_info=Unknown,{broken_vendor}/gain.txt"
    reference = f"--reference=Gian,{broken_vendor}/ref.py:same"
    report = check_json(capsys, broken_vendor, info, reference, "--rule=dispatch.runs")
    names = "Check the names of the ops: the plugin accepts no op with such a name."
    assert report["parts"][0]["remarks"][-2:] == [
        f"No run used the assets for these ops: Unknown. {names}",
        f"No run used the references for these ops: Gian. {names}",
    ]


def test_a_model_of_open_shape_is_not_looked_at_and_that_is_said(
    broken_vendor: Path, tmp_path: Path, capsys: Capture
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 5), shape_signature=(-1, 5))
    y = builder.tensor("y", "float32", (1, 5), shape_signature=(-1, 5))
    builder.output(builder.op("MUL", [x, x], [y]))
    write_model(builder.build(), tmp_path / "open.tflite")
    report = check_json(capsys, broken_vendor, f"--model={tmp_path}/open.tflite", "--rule=result")
    assert "shapes that are known only at run time" in why_not(report, "open.tflite")


@pytest.mark.parametrize(
    ("forgotten", "rule"), [("RELU", "values.activation"), ("a row", "values.broadcast")]
)
def test_what_is_forgotten_of_an_op_is_found_whatever_models_there_are(
    broken_vendor: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    forgotten: str,
    rule: str,
) -> None:
    monkeypatch.setenv("BROKEN_RULE", f"forgets {forgotten}")
    report = check_json(capsys, broken_vendor, "--rule=values")
    assert broken_rules(report) == {rule}
    failed = [f["case"] for f in report["parts"][1]["findings"] if f["outcome"] == "failed"]
    assert failed and all(forgotten in case for case in failed)


def test_a_dispatch_library_alone_is_checked_as_far_as_that_goes(
    broken_vendor: Path, capsys: Capture
) -> None:
    report = check_json(capsys, broken_vendor / DISPATCH)
    (part,) = report["parts"]
    outcomes = {finding["rule"]: finding["outcome"] for finding in part["findings"]}
    assert outcomes["device.many"] == "passed" and outcomes["dispatch.runs"] == "unseen"
    assert report["gaps"] == ["nothing was run"]
    check(broken_vendor / DISPATCH)
    end = capsys.readouterr().out.splitlines()[-1]
    assert end.startswith("Broken breaks none of the checked rules, but nothing was run: ")


@pytest.mark.parametrize(
    ("files", "rule", "says"),
    [
        (
            [PLUGIN],
            "api",
            "--rule=api is about a dispatch library, but the command line gives no d",
        ),
        ([PLUGIN], "dispatch.ends", "--rule=dispatch.ends is about a dispatch library"),
        ([DISPATCH], "compile.ok", "--rule=compile.ok is about a compiler plugin"),
        (
            [PLUGIN, DISPATCH],
            "compile.subgraphs",
            "has no check of its own, because the rule invoke.values already compares the",
        ),
    ],
)
def test_a_rule_that_the_libraries_have_nothing_of_is_refused(
    broken_vendor: Path, files: list[str], rule: str, says: str
) -> None:
    with pytest.raises(LiteRtError, match=re.escape(says)) as error:
        check(*(broken_vendor / name for name in files), f"--rule={rule}")
    assert error.value.status is Status.INVALID_TOOL_CONFIG


def test_a_vendor_does_not_conform_where_nothing_of_the_rules_was_looked_at(
    capsys: Capture,
) -> None:
    report = check_json(capsys, "Null", "--rule=compile")
    assert not report["conforms"] and not broken_rules(report)
    check("Null", "--rule=compile")
    end = capsys.readouterr().out.splitlines()[-1]
    assert end.startswith("Null was not checked: compile could not be checked: ")


def test_machine_code_in_assets_is_checked_where_it_may_run(
    tmp_path: Path, capsys: Capture
) -> None:
    arguments = ("Reference", f"--npu_custom_op_info=Twice,{library(tmp_path)}")
    report = check_json(capsys, *arguments, "--allow_native_assets", "--strict")
    assert not broken_rules(report) and not report["gaps"]
    assert "no kernel for its custom op" in why_not(report, "Twice")
    with pytest.raises(
        LiteRtError, match="machine code, which may run only with --allow_native_assets"
    ) as error:
        check(*arguments)
    assert "--allow_native_assets" in error.value.hint


def test_a_custom_op_is_checked_as_the_users_model_has_it(tmp_path: Path, capsys: Capture) -> None:
    op = "Convolution2DTransposeBias"
    info = f"--npu_custom_op_info={op},{ROOT}/examples/kernels/{op}.json"
    with pytest.raises(LiteRtError, match=f"refuses --npu_custom_op_info={op}.*has 1 input"):
        check("Reference", info, "--rule=compile.ok")
    builder = ModelBuilder()
    x, weights, bias = (
        builder.input(name, "float32", shape)
        for name, shape in {"x": (1, 4, 4, 2), "w": (3, 2, 2, 2), "b": (3,)}.items()
    )
    options = struct.pack("3i", 1, 2, 2)  # padding, strides
    outputs = [("y", "float32", (1, 8, 8, 3))]
    builder.output(builder.custom(op, [x, weights, bias], outputs, options=options))
    write_model(builder.build(), tmp_path / "conv.tflite")
    report = check_json(
        capsys, "Reference", info, f"--model={tmp_path}/conv.tflite", "--rule=dispatch.runs"
    )
    assert report["conforms"] and "no kernel for its custom op" in why_not(report, "conv.tflite")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["Nobody"], Status.NOT_FOUND),
        (["./nowhere.so"], Status.NOT_FOUND),
        (["Null", "--npu_custom_op_info=Copy,nowhere.txt"], Status.NOT_FOUND),
        (["Null", "--companion=Copy/a,nowhere.txt"], Status.NOT_FOUND),
        (["Null", "--model=nowhere.tflite"], Status.NOT_FOUND),
        (["Null", "--tolerance=-1"], Status.INVALID_TOOL_CONFIG),
        ([__file__], Status.INVALID_TOOL_CONFIG),
        ([], Status.INVALID_TOOL_CONFIG),
        (["Null", "--rule=no.such_rule"], Status.INVALID_TOOL_CONFIG),
        (["Null", "--option==x"], Status.INVALID_TOOL_CONFIG),
        (["Null", "--option=zinc_tiles=4"], Status.INVALID_TOOL_CONFIG),
    ],
    ids=lambda value: " ".join(value)[-20:] if isinstance(value, list) else value.name,
)
def test_a_wrong_command_line_is_refused(arguments: list[str], status: Status) -> None:
    with pytest.raises(LiteRtError) as error:
        check(*arguments)
    assert error.value.status is status


@pytest.mark.parametrize("text", ["Copy/a", "Copy,a", "/a,b", "Copy/,b", "Copy/a,"])
def test_a_companion_that_is_written_wrong_is_called_one(text: str) -> None:
    with pytest.raises(LiteRtError, match=f"^INVALID_TOOL_CONFIG: --companion={text} ") as error:
        check("Null", f"--companion={text}")
    assert "op/relative/path,path" in error.value.hint


@pytest.mark.parametrize(
    ("argument", "has"),
    [
        ("--soc_model=EMU9", "EMU8, EMU4, EMU16"),
        ("--option=reference_opz=all", "'reference_ops'"),
        ("--option=reference_fp16=double", "float or half"),
        ("--npu_custom_op_info=Sinh,README.md", ".bin, .cl, .json, .so, .xml"),
    ],
)
def test_what_a_vendor_refuses_of_the_command_line_is_no_broken_rule(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, argument: str, has: str
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(LiteRtError) as error:
        check("Reference", argument)
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert f" refuses {argument.replace(',README', f',{ROOT}/README')}: " in error.value.what
    assert "vendor 'Reference'" in str(error.value)
    assert has in str(error.value) and not capsys.readouterr().out


def test_what_an_exported_vendor_refuses_is_in_its_own_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = exported("compiler_plugin", "Reference")
    with pytest.raises(
        LiteRtError, match=r"the vendor refuses --option=reference_opz=all: .*vendor 'Reference', "
    ) as error:
        check(folder, "--option=reference_opz=all")
    assert "Did you mean 'reference_ops'?" in capfd.readouterr().err
    assert error.value.hint == "See the library's output above."


def test_a_vendor_in_c_says_which_soc_models_it_has(broken_vendor: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        check(broken_vendor, "--soc_model=BRK3")
    assert error.value.hint == "Did you mean 'BRK2'? The SoC models are BRK1, BRK2."


def test_a_vendor_that_breaks_whatever_it_is_asked_for_is_checked_all_the_same(
    broken_vendor: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("BROKEN_RULE", "soc_models.some")
    report = check_json(capsys, broken_vendor / PLUGIN, "--soc_model=BRK2", "--rule=soc_models")
    assert broken_rules(report) == {"soc_models.some"}


@pytest.mark.parametrize(
    ("rule", "flag"),
    [
        ("partition.ops", "--npu_custom_op_info=Gain,{}/gain.txt"),
        ("result.modules", "--npu_custom_op_info=Gain,{}/gain.txt"),
        ("soc_models.names", "--soc_model=BRK2"),
    ],
)
def test_a_rule_that_is_broken_is_not_blamed_on_the_flags(
    broken_vendor: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, rule: str, flag: str
) -> None:
    monkeypatch.setenv("BROKEN_RULE", rule)
    report = check_json(
        capsys, broken_vendor / PLUGIN, flag.format(broken_vendor), f"--rule={rule}"
    )
    assert broken_rules(report) == {rule}


_REFUSING = """
from nickel_npu.compiler_plugin import NickelPlugin, NickelPluginFactory
from litert.core.errors import LiteRtError

class Refusing(NickelPlugin):
    def compile(self, soc_model, partitions):
        raise LiteRtError(1, "no model will do")

class Factory(NickelPluginFactory):
    def create(self, environment_options, compiler_options):
        return Refusing(compiler_options)

PLUGIN = Factory()
"""


def test_a_plugin_that_refuses_all_models_does_not_refuse_the_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "07_python_vendor"))
    (tmp_path / "LiteRtCompilerPlugin_Nickel.py").write_text(_REFUSING)
    info = f"--npu_custom_op_info=Gain,{ROOT}/examples/06_c_vendor/gain.txt"
    report = check_json(capsys, tmp_path, info, "--rule=compile.ok")
    assert broken_rules(report) == {
        "partition.ops"
    }  # the Python plugin fails at this rule, as a library does


def test_a_soc_model_that_is_asked_for_is_the_only_one(
    broken_vendor: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("BROKEN_RULE", "soc_models.each")
    arguments = (broken_vendor / PLUGIN, "--rule=soc_models.each")
    assert broken_rules(check_json(capsys, *arguments, "--soc_model=BRK1")) == set()
    report = check_json(capsys, *arguments)
    (failed,) = [f for f in report["parts"][0]["findings"] if f["outcome"] == "failed"]
    assert failed["text"].startswith("SoC model BRK2: LiteRtCompilerPluginCompile returns")


def test_a_plugins_settings_mean_nothing_to_a_dispatch_library_alone(broken_vendor: Path) -> None:
    with pytest.raises(
        LiteRtError, match="for a compiler plugin, but this vendor has no compiler plugin"
    ) as error:
        check(broken_vendor / DISPATCH, "--soc_model=BRK1")
    assert error.value.status is Status.INVALID_TOOL_CONFIG


@pytest.mark.parametrize("flags", [[], ["--rule=plugin.ends"]])
def test_a_time_limit_in_which_no_check_can_begin_is_an_error_that_names_the_flag(
    flags: list[str],
) -> None:
    with pytest.raises(LiteRtError, match="was not ready for its first check within") as error:
        check("Reference", "--timeout=0.1", *flags)
    assert error.value.status is Status.TIMEOUT_EXPIRED and "checks the plugin" in error.value.what
    assert "--timeout" in error.value.hint and not error.value.where


def test_a_library_that_does_not_load_is_a_finding(tmp_path: Path, capsys: Capture) -> None:
    for name in ("libLiteRtCompilerPlugin_Torn.so", "libLiteRtDispatch_Torn.so"):
        (tmp_path / name).write_bytes(b"\x7fELF and no more")
    report = check_json(capsys, tmp_path)
    assert broken_rules(report) == {"plugin.symbols", "api.loads"}
