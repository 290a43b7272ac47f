"""Tests that wrong values are found and reported as the rule that the vendor breaks, in Python and in C."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.litert_npu import main

from litert.analysis.difference import RELATIVE, STEPS
from litert.conformance import probes
from litert.conformance.expected import add_expected
from litert.conformance.probe import OTHERS, PROBES, find_probes
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.conformance.numeric_libraries import build_numeric_c

Capture = pytest.CaptureFixture[str]
Check = Callable[..., dict[str, Any]]
ROOT = Path(__file__).resolve().parents[2]
NUMERIC = Path(__file__).parent / "numeric"
VALUES = ("--rule=values", "--rule=invoke.values")
SWAPPED = "the outputs match if inputs 0 and 1 are swapped: an NPU call gets its inputs in"


@pytest.fixture
def check(capsys: Capture) -> Check:
    """A function that runs `vendor check` with arguments and returns its report."""

    def run(*arguments: object) -> dict[str, Any]:
        main(["litert-npu", "vendor", "check", *map(str, arguments), "--report=json"])
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    return run


def found(report: dict[str, Any], outcome: str = "failed") -> list[dict[str, Any]]:
    findings = [finding for part in report["parts"] for finding in part["findings"]]
    return [finding for finding in findings if finding["outcome"] == outcome]


def broken(report: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in found(report)}


FAULTS = {
    "padding": "values.padding",
    "per_channel": "values.per_channel",
    "bias": "values.bias",
    "zero_point": "values.zero_point",
    "swapped": "values.input_order",
    "negated": "values.input_order",
    "activation": "values.activation",
    "scales of biases": "values.per_channel",
    "dilation": "values.dilation",
    "dilation of columns": "values.dilation",
    "strides": "values.strides",
    "stride of columns": "values.strides",
    "broadcast": "values.broadcast",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_vendor_in_python_is_named_by_its_rule(
    check: Check, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("NUMERIC_FAULT", fault)
    report = check(NUMERIC, *VALUES)
    assert broken(report) == {FAULTS[fault]}
    if FAULTS[fault] == "values.input_order":
        assert all(finding["text"].startswith(SWAPPED) for finding in found(report))


def test_a_vendor_that_computes_all_probes_keeps_each_rule(check: Check) -> None:
    report = check(NUMERIC, "--strict")
    assert not broken(report) and report["counts"]["passed"] > 250
    assert len(report["compared"]) == len(find_probes()) and not any(
        row["why"] for row in report["compared"]
    )


def test_the_rest_of_the_report_is_whole(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMERIC_FAULT", "bias")
    report = check(NUMERIC)
    assert broken(report) == {"values.bias"}
    unseen = {f["rule"] for f in found(report, "unseen") if f["text"].startswith("needs")}
    assert unseen == {"invoke.values", "values.per_channel"}  # their probes have a bias, too
    assert {"invoke.threads", "invocation.many", "values.padding"} <= {
        finding["rule"] for finding in found(report, "passed")
    }
    rows = {(row["op"], row["types"], row["variant"]): row for row in report["compared"]}
    wrong = rows["CONV_2D", "int8", "bias"]
    assert wrong["difference"] > 10 and (wrong["limit"], wrong["unit"]) == (1, STEPS)
    right = rows["CONV_2D", "float32", "SAME, strides 2 and 3"]
    assert right["difference"] < 1e-6 and (right["limit"], right["unit"]) == (0.01, RELATIVE)
    assert "which is broken" in rows["CONV_2D", "int8", "all together"]["why"]


def test_the_table_has_what_was_compared_and_why_others_were_not(
    c_vendor: Path, capsys: Capture
) -> None:
    main(["litert-npu", "vendor", "check", str(c_vendor), *VALUES])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = lines.index(["op", "types", "variant", "difference", "may", "be"])
    assert lines[at + 2] == ["SUB", "float32", "0", "0.01", "of", "the", "magnitude"]
    text = " ".join(word for line in lines[at:] for word in line)
    assert (
        "not compared, because the plugin does not take its ops: ADD of float32 (5 variants),"
        in text
    )


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("kNothing", ""),
        ("kPadding", "values.padding"),
        ("kPerChannel", "values.per_channel"),
        ("kBias", "values.bias"),
        ("kZeroPoint", "values.zero_point"),
        ("kSwapped", "values.input_order"),
    ],
)
def test_a_fault_of_a_vendor_in_c_is_named_by_its_rule(
    check: Check, tmp_path: Path, fault: str, rule: str
) -> None:
    report = check(build_numeric_c(tmp_path, fault))
    assert broken(report) == ({rule} if rule else set())
    compared = {row["op"] for row in report["compared"] if row["difference"] is not None}
    assert compared == {"SUB", "CONV_2D", "FULLY_CONNECTED"}


def replaced(source: Path, right: str, wrong: str) -> None:
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))


def test_inputs_that_the_c_example_swaps_are_found(check: Check, tmp_path: Path) -> None:
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip("no C compiler, or no make")
    shutil.copytree(ROOT / "examples" / "06_c_vendor", tmp_path / "source")
    replaced(
        tmp_path / "source" / "plugin.c",
        "LITERT_NPU_TRY(LiteRtNpuFindOperand(plugin->context, subgraph, op, k, &function->operands[k]));",
        "function->operands[k] = k < num_inputs ? (uint32_t)k : 0;",
    )
    make: list[str | Path] = ["make", "-s", "-C", tmp_path / "source", f"PYTHON={sys.executable}"]
    subprocess.run([*make, f"BUILD={tmp_path}/built"], check=True)
    report = check(tmp_path / "built")
    assert broken(report) == {"values.input_order"}
    assert all(finding["text"].startswith(SWAPPED) for finding in found(report))


def test_inputs_that_the_python_example_swaps_are_found(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "nickel_npu"
    shutil.copytree(ROOT / "examples" / "07_python_vendor" / "nickel_npu", package)
    right = "[subgraph.inputs.index(tensor) for tensor in op.inputs if tensor is not None]"
    replaced(package / "compiler_plugin.py", right, f"sorted({right})")
    for name, constant in (("compiler_plugin", "PLUGIN"), ("dispatch", "DISPATCH")):
        kind = {"PLUGIN": "CompilerPlugin", "DISPATCH": "Dispatch"}[constant]
        text = f"from nickel_npu.{name} import {constant}\n__all__ = ['{constant}']\n"
        (tmp_path / f"LiteRt{kind}_Nickel.py").write_text(text)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    report = check(
        tmp_path / "LiteRtCompilerPlugin_Nickel.py", tmp_path / "LiteRtDispatch_Nickel.py"
    )
    assert broken(report) == {"values.input_order"}
    cases = [finding["case"] for finding in found(report)]
    assert cases == ["SUB, then MUL", "SUB, from the second input"]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """The path of a model with one partition: y = Triple(x + z) - x."""
    builder = ModelBuilder()
    x, z = (builder.input(name, "float32", (2, 5)) for name in "xz")
    s = builder.op("ADD", [x, z], [("s", "float32", (2, 5))])
    t = builder.custom("Triple", [s], [("t", "float32", (2, 5))], options={"factor": 3})
    builder.output(builder.op("SUB", [t, x], [("y", "float32", (2, 5))]))
    write_model(builder.build(), tmp_path / "mixed.tflite")
    (tmp_path / "reference.py").write_text(
        "def triple(inputs, options):\n    return options['factor'] * inputs[0]\n"
        "def wide(inputs, options):\n    return inputs[0].ravel()\n"
    )
    return tmp_path / "mixed.tflite"


def others(report: dict[str, Any]) -> dict[str, str]:
    """Returns the reason why the call of each model (not probe) was not compared; "" if it was compared."""
    return {row["variant"]: row["why"] for row in report["compared"] if row["check"] == OTHERS}


def test_a_partition_with_a_custom_op_is_compared_with_its_reference(
    check: Check, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = f"--reference=Triple,{mixed.parent}/reference.py:triple"
    arguments = (NUMERIC, "--rule=invoke.values", f"--model={mixed}", reference)
    report = check(*arguments)
    assert not broken(report) and others(report) == {"mixed.tflite": ""}
    monkeypatch.setenv("NUMERIC_FAULT", "Triple")
    (failed,) = found(check(*arguments))
    assert (failed["rule"], failed["case"]) == ("invoke.values", OTHERS)
    assert failed["text"].startswith("mixed.tflite, output 0: element ")


def test_models_with_the_same_file_name_are_told_apart(check: Check, mixed: Path) -> None:
    other = mixed.parent / "other" / mixed.name
    other.parent.mkdir()
    shutil.copy(mixed, other)
    reference = f"--reference=Triple,{mixed.parent}/reference.py:triple"
    models = (f"--model={mixed}", f"--model={other}")
    report = check(NUMERIC, "--rule=invoke.values", *models, reference)
    assert others(report) == {str(mixed): "", str(other): ""}


def test_without_a_reference_the_ops_beside_a_custom_op_are_compared(
    check: Check, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (NUMERIC, "--rule=invoke.values", f"--model={mixed}")
    report = check(*arguments)
    why = "LiteRT has no kernel for its custom op; give a reference function with --reference"
    alone = "mixed.tflite, builtin ops alone"
    assert others(report) == {"mixed.tflite": why, f"{alone}, call 0": "", f"{alone}, call 1": ""}
    monkeypatch.setenv("NUMERIC_FAULT", "negated")
    assert f"{alone}, call 1, output 0: element" in found(check(*arguments))[-1]["text"]
    monkeypatch.setenv("NUMERIC_FAULT", "only with Triple")
    report = check(*arguments)
    refused = others(report)
    assert all("without its custom op" in refused[f"{alone}, call {i}"] for i in range(2))


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        (
            "Triple",
            "--reference=Triple does not contain a function.* Write --reference=op,file.py:function",
        ),
        (",a.py:triple", "--reference=,a.py:triple does not contain an op"),
        ("Triple,{}/nowhere.py:triple", "no such file"),
        (
            "Triple,{}/reference.py:wide",
            r"shape \[10\] for output 0, but this output has shape \[2, 5\] in the model",
        ),
    ],
)
def test_a_reference_that_is_none_is_refused(
    check: Check, mixed: Path, reference: str, error: str
) -> None:
    flag = f"--reference={reference.format(mixed.parent)}"
    with pytest.raises(LiteRtError, match=error):
        check(NUMERIC, "--rule=invoke.values", f"--model={mixed}", flag)


def test_a_model_that_ends_a_process_leaves_the_others(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMERIC_FAULT", "crashes in TANH")
    report = check(NUMERIC, "--rule=invoke.values")
    (failed,) = found(report)
    assert (failed["case"], failed["text"]) == ("TANH", "ended with status 4, in invoke")
    rows = {row["check"]: row for row in report["compared"]}
    assert rows["TANH"]["why"] == failed["text"] and rows["SOFTMAX"]["difference"] is not None
    monkeypatch.setenv("NUMERIC_FAULT", "compiles no TANH")
    report = check(NUMERIC, "--rule=invoke.values")
    rows = {row["check"]: row for row in report["compared"]}
    assert "ended with status 3" in rows["TANH"]["why"] and not rows["SOFTMAX"]["why"]


def test_a_model_that_ends_the_plugin_leaves_the_rules_that_others_show(
    check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.op("TANH", [x], [("y", "float32", (1, 4))]))
    write_model(builder.build(), tmp_path / "first.tflite")
    monkeypatch.setenv("NUMERIC_FAULT", "compiles no TANH")
    plugin = NUMERIC / "LiteRtCompilerPlugin_Numeric.py"
    report = check(plugin, f"--model={tmp_path}/first.tflite", "--rule=result", "--rule=compile")
    (failed,) = found(report)
    assert failed["text"].startswith("ended with status 3, in LiteRtCompilerPlugin")
    assert failed["text"].endswith(", with model 'first.tflite'")
    passed = {finding["rule"] for finding in found(report, "passed")}
    assert {"result.calls", "result.modules", "compile.ok", "compile.repeatable"} <= passed
    unseen = {finding["text"] for finding in found(report, "unseen")}
    assert "needs partition.ops, which is broken" in unseen


def test_a_float_is_as_far_away_as_its_terms_are_large(check: Check, tmp_path: Path) -> None:
    """In a sum that cancels, the error is relative to the terms, not to the result."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 8))
    weights = builder.constant("w", np.full((1, 8), 100, np.float32))
    builder.output(builder.op("FULLY_CONNECTED", [x, weights], [("y", "float32", (1, 1))]))
    write_model(builder.build(), tmp_path / "sum.tflite")
    case: dict[str, Any] = {
        "model": str(tmp_path / "sum.tflite"),
        "terms": str(tmp_path / "sum.tflite"),
        "inputs": [[int(ElementType.FLOAT32), [1, 8]]],
        "range": (-1, 1),
        "signs": [1],
    }
    add_expected(case, {})
    expected, magnitude = (
        np.fromfile(case[name][0], np.float32) for name in ("expected", "magnitudes")
    )
    values = np.random.default_rng(0).uniform(-1, 1, 8)
    assert expected == pytest.approx(100 * values.sum(), rel=1e-5)
    assert magnitude == pytest.approx(100 * abs(values).sum(), rel=1e-5)


def test_stock_s_own_kernels_agree_on_each_probe_within_a_step(tmp_path: Path) -> None:
    """The limit of one step is valid only because XNNPACK's kernels and TFLite's reference kernels keep it."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    for probe in find_probes():
        write_model(probe.build(), tmp_path / "probe.tflite")
        outputs = []
        for resolver in (OpResolverType.AUTO, OpResolverType.BUILTIN_REF):
            path = str(tmp_path / "probe.tflite")
            interpreter = Interpreter(path, experimental_op_resolver_type=resolver)
            interpreter.allocate_tensors()
            for seed, detail in enumerate(interpreter.get_input_details()):
                random = np.random.default_rng(seed)
                values = random.uniform(probe.lowest, probe.highest, detail["shape"])
                if detail["dtype"] == np.int8:
                    values = random.integers(-128, 128, detail["shape"])
                interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
            interpreter.invoke()
            (output,) = interpreter.get_output_details()
            outputs.append(interpreter.get_tensor(output["index"]).astype(np.float64))
        limit = 1 if probe.types == "int8" else 1e-5
        assert abs(outputs[0] - outputs[1]).max() <= limit, probe.name
        assert len(np.unique(outputs[0])) > 3, f"{probe.name}: the outputs are nearly all the same"


_NEW_PROBE = '''
"""FLOOR."""
from litert.conformance.probe import Operand, Probe, one_op
PROBES = [Probe("FLOOR", "float32", "", lambda: one_op("FLOOR", [Operand((4,))], Operand((4,))))]
'''


def test_a_new_probe_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(find_probes())
    (tmp_path / "rounding.py").write_text(_NEW_PROBE)
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    find_probes.cache_clear()
    try:
        found = find_probes()
    finally:
        find_probes.cache_clear()
        sys.modules.pop(f"{PROBES}.rounding", None)
    (new,) = [probe for probe in found if probe not in before]
    assert (new.name, len(found)) == ("FLOOR", len(before) + 1)
    assert new.build().subgraphs[0].ops[0].name == "FLOOR"
