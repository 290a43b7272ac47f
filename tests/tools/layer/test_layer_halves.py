"""Tests `litert-npu layer` with kernels on half tensors, and the vendor's options in all of its commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu
from vendor_reference.authoring import sanitizer
from vendor_reference.compiler.reference_options import OPTIONS
from vendor_reference.executable.binary_layer import unpack_binary_layer

Capture = pytest.CaptureFixture[str]

COMMANDS = ("build", "check", "new", "run", "stub", "tune")
IN_TYPE = """__kernel void Scale(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  y[i] = x[i] * (OUTPUT0_TYPE) 1.5;
}
"""
OF_HALVES = """__kernel void Scale(const __global half* x, __global half* y) {
  const size_t i = get_global_id(0);
  vstore_half(vload_half(i, x) * 1.5f, i, y);
}
"""
REFERENCE = """import numpy as np
def reference(inputs, options):
    return [(inputs[0] * np.float16(1.5)).astype(np.float16)]
"""
OF_HALF_TYPES = ("--inputs=2x8xf16", "--outputs=2x8xf16", "--op=Scale")
KERNELS = {
    "in the tensors' type": (IN_TYPE, ()),
    "of halves": (OF_HALVES, ()),
    "of halves, as the user says": (OF_HALVES, ("--reference_fp16=half",)),
    "in the tensors' type, float": (IN_TYPE, ("--reference_fp16=float",)),
}

needs_oclgrind = pytest.mark.skipif(
    not sanitizer.has_simulator(), reason="no OpenCL driver Oclgrind, the extra `sanitize`"
)


@pytest.fixture(params=list(KERNELS.values()), ids=list(KERNELS))
def flags(author: Path, request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Writes a layer and returns the flags that select it."""
    kernel, flags = request.param
    (author / "k.cl").write_text(kernel)
    description = {"version": 1, "sources": ["k.cl"], "work_sizes": {"global": ["B*F"]}}
    (author / "k.json").write_text(json.dumps(description))
    (author / "reference.py").write_text(REFERENCE)
    return (*OF_HALF_TYPES, *flags)


@pytest.fixture
def half_model(author: Path) -> str:
    b = ModelBuilder()
    x = b.input("x", "float16", (2, 8))
    b.output(b.custom("Scale", [x], [("y", "float16", (2, 8))]))
    write_model(b.build(), "halves.tflite")
    return "halves.tflite"


@pytest.mark.usefixtures("in_this_process")
def test_a_kernel_on_half_tensors_is_checked(
    flags: tuple[str, ...], litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "check", "k.json", *flags, "--report=json") == 0
    (subject,) = json.loads(capsys.readouterr().out)["subjects"]
    declared = {argument["declared"].split()[-2] for argument in subject["kernel"]["arguments"]}
    bound = [argument["bound"] for argument in subject["kernel"]["arguments"]]
    assert declared in ({"half*"}, {"float*"})
    c_type = declared.pop().rstrip("*")
    assert all(f" of {c_type}, in memory" in text for text in bound)
    if "--reference_fp16=float" in flags:
        assert c_type == "float"


@pytest.mark.usefixtures("in_this_process")
def test_a_kernel_on_half_tensors_runs(
    flags: tuple[str, ...], litert_npu: LitertNpu, capsys: Capture
) -> None:
    arguments = ("--reference=reference.py:reference", "--tolerance=0.001", "--repeat=1")
    assert litert_npu("layer", "run", "k.json", *flags, *arguments, "--report=json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and report["comparisons"] and report["speed"]


def test_the_local_size_of_a_kernel_on_half_tensors_is_tuned(
    flags: tuple[str, ...], litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "tune", "k.json", *flags, "--candidates=1", "--report=json") == 0
    assert all(not c["problem"] for c in json.loads(capsys.readouterr().out)["candidates"])


@needs_oclgrind
def test_a_kernel_on_half_tensors_is_sanitized(
    flags: tuple[str, ...], litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "check", "k.json", *flags, "--sanitize", "--report=json") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.usefixtures("in_this_process")
def test_a_kernel_on_half_tensors_is_compiled_ahead_and_runs_without_its_source(
    flags: tuple[str, ...], half_model: str, litert_npu: LitertNpu, author: Path
) -> None:
    assert litert_npu("layer", "build", "k.json", *flags, "-o", "k.bin", "--nosource") == 0
    given = dict(flag.removeprefix("--").split("=") for flag in flags if "fp16" in flag)
    compiler = CompilerOptions([CustomOpInfo("Scale", "k.bin")], vendor_options=given)
    apply_plugin(half_model, "out.npu", ApplyOptions(compiler=compiler, require_npu=["all"]))
    options = Options(HardwareAccelerator.NPU)
    options.allow_native_assets = True
    x = np.linspace(-3, 3, 16, dtype=np.float16).reshape(2, 8)
    with CompiledModel.from_file("out.npu", options=options) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(x)
        model.run_by_index(0, inputs, outputs)
        found = np.array(outputs[0].read(16, np.float16))
    np.testing.assert_allclose(found, (x * np.float16(1.5)).ravel(), atol=2e-3)
    layer = unpack_binary_layer((author / "k.bin").read_bytes(), "k.bin")
    assert len({code.program for code in layer.codes}) in (1, 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_knows_the_vendor_s_options(
    litert_npu: LitertNpu, capsys: Capture, command: str
) -> None:
    assert litert_npu("layer", command, "--help") == 0
    printed = capsys.readouterr().out
    assert all(f"  --{name}  " in printed for name in OPTIONS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_that_an_option_cannot_have_is_an_error_in_each_command(
    half_model: str, author: Path, litert_npu: LitertNpu, capsys: Capture, command: str
) -> None:
    (author / "k.json").write_text("{}")
    asset = () if command in ("new", "stub") else ("k.json",)
    output = {"new": ("-o", "folder"), "build": ("-o", "k.bin")}.get(command, ())
    model = f"--model={half_model}"
    assert litert_npu("layer", command, *asset, model, "--reference_fp16=double", *output) == 2
    printed = capsys.readouterr().err
    assert "--reference_fp16 is 'double', but must be device, float or half" in printed
    assert not (author / "folder").exists() and not list(author.glob("*stub*"))


@pytest.mark.parametrize("command", ["new", "stub"])
def test_printed_commands_have_the_options_that_were_given(
    half_model: str, author: Path, litert_npu: LitertNpu, capsys: Capture, command: str
) -> None:
    arguments = (f"--model={half_model}", "--reference_fp16=half", "-o", "folder")
    assert litert_npu("layer", command, *arguments) == 0
    readme = author / "folder" / "Scale.md"
    text = readme.read_text() if command == "new" else capsys.readouterr().out
    lines = [line.strip() for line in text.splitlines()]
    commands = [line for line in lines if line.startswith(("apply_plugin", "litert-npu layer"))]
    assert commands and all(" --reference_fp16=half" in line for line in commands)


@pytest.mark.usefixtures("in_this_process")
def test_a_skeleton_for_half_tensors_builds_and_runs_at_once(
    half_model: str, litert_npu: LitertNpu
) -> None:
    assert litert_npu("layer", "new", f"--model={half_model}", "-o", "f") == 0
    reference = "--reference=f/Scale_reference.py:reference"
    model = f"--model={half_model}"
    assert litert_npu("layer", "run", "f/Scale.cl", model, reference, "--repeat=0") == 0
