"""Tests `litert-npu layer build`, and compiling and running models with its `.bin` file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import SOFTSIGN
from vendor_reference.authoring import layer_build
from vendor_reference.drivers.device_choice import find_devices
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.executable.binary_layer import pack_binary_layer, unpack_binary_layer
from vendor_reference.programs import compiler_process

Capture = pytest.CaptureFixture[str]
DESCRIPTION = {
    "version": 1,
    "sources": ["src/Softsign.cl"],
    "defines": [{"name": "PARAM_alpha", "option": "alpha"}],
}


@pytest.fixture
def described(author: Path) -> Path:
    """The author's folder with a description of the layer; a subfolder has the source and a header."""
    (author / "src").mkdir()
    (author / "src" / "Softsign.cl").write_text('#include "inc.h"\n' + SOFTSIGN)
    (author / "src" / "inc.h").write_text("#define UNUSED 1\n")
    (author / "Softsign.json").write_text(json.dumps(DESCRIPTION))
    return author


def _apply(folder: Path, asset: str) -> str:
    options = CompilerOptions([CustomOpInfo("Softsign", str(folder / asset))])
    apply_plugin("model.tflite", "out.npu", ApplyOptions(compiler=options))
    return "out.npu"


def _result(compiled: str, *, allow_native: bool = False) -> None:
    """Runs a compiled model and compares the result with NumPy's."""
    options = Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU)
    options.allow_native_assets = allow_native
    x = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)
    y = x
    for alpha in (0.5, 0.5, 2.0):
        y = alpha * y / (1 + np.abs(y))
    with CompiledModel.from_file(compiled, options=options) as model:
        found = model.run({"x": x})["y"]
    np.testing.assert_allclose(found, np.maximum(y, 0), rtol=1e-6)


@pytest.mark.parametrize("asset", ["Softsign.cl", "Softsign.json"])
def test_a_binary_layer_stands_for_what_it_was_made_of(
    described: Path, litert_npu: LitertNpu, capsys: Capture, asset: str
) -> None:
    assert litert_npu("layer", "build", asset, "--model=model.tflite", "-o", "s.bin") == 0
    printed = capsys.readouterr().out
    assert "s.bin: 2 programs" in printed and f"files: {asset}" in printed
    layer = unpack_binary_layer((described / "s.bin").read_bytes(), "s.bin")
    assert len({code.program for code in layer.codes}) == 2
    for name in ("Softsign.cl", "Softsign.json", "src"):
        (described / name).rename(described / f"moved-{name}")
    _result(_apply(described, "s.bin"))


def test_a_source_that_is_left_out_is_not_in_the_file(
    described: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    arguments = ("Softsign.json", "--model=model.tflite", "-o", "s.bin", "--nosource")
    assert litert_npu("layer", "build", *arguments) == 0
    assert "src/Softsign.cl (left out), src/inc.h (left out)" in capsys.readouterr().out
    assert b"fabs(x[i])" not in (described / "s.bin").read_bytes()
    compiled = _apply(described, "s.bin")
    assert litert_npu("check", compiled) == 0
    assert "--allow_native_assets" in capsys.readouterr().out
    with pytest.raises(LiteRtError, match=r"contains only machine code.*allow_native_assets"):
        _result(compiled)
    _result(compiled, allow_native=True)


@pytest.mark.parametrize("arguments", [(), ("--nosource",)])
def test_a_layer_of_several_is_built_without_the_files_of_the_others(
    described: Path, litert_npu: LitertNpu, arguments: tuple[str, ...]
) -> None:
    (described / "other.cl").write_text("__kernel void other(__global const float* x) {}")
    own = {"name": "Softsign", "sources": DESCRIPTION["sources"], "defines": DESCRIPTION["defines"]}
    layers = [own, {"name": "Other", "sources": ["other.cl"]}]
    (described / "two.json").write_text(json.dumps({"version": 1, "layers": layers}))
    build = ("layer", "build", "two.json", "--op=Softsign", "--model=model.tflite", "-o", "s.bin")
    assert litert_npu(*build, *arguments) == 0
    (described / "other.cl").rename(described / "moved-other.cl")
    _result(_apply(described, "s.bin"), allow_native=bool(arguments))


def test_an_op_that_a_layer_without_source_was_not_built_for_says_so(
    described: Path, litert_npu: LitertNpu
) -> None:
    arguments = ("Softsign.json", "--model=model.tflite", "--op=2", "-o", "s.bin", "--nosource")
    assert litert_npu("layer", "build", *arguments) == 0
    with pytest.raises(
        LiteRtError,
        match="the layer contains no source code, and no machine code for the op's shapes and options",
    ):
        _apply(described, "s.bin")


@pytest.mark.usefixtures("described")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Softsign.json", "-o", "s.cl"), "-o is 's.cl'"),
        (("Softsign.json",), "-o is ''"),
        (("missing.json", "-o", "s.bin"), "no such file"),
        (("Softsign.cl", "-o", "s.bin", "--nosource"), "--nosource cannot omit the source code"),
        (
            ("Softsign.json", "-o", "no/such/folder/s.bin"),
            "the directory of the output does not exist",
        ),
    ],
)
def test_what_cannot_be_built_says_why(
    litert_npu: LitertNpu, capsys: Capture, arguments: tuple[str, ...], says: str
) -> None:
    assert litert_npu("layer", "build", "--model=model.tflite", *arguments) != 0
    assert says in capsys.readouterr().err
    assert not Path("s.bin").exists()


def test_a_binary_layer_is_not_built_again(
    described: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "build", "Softsign.json", "--model=model.tflite", "-o", "s.bin") == 0
    assert litert_npu("layer", "build", "s.bin", "--model=model.tflite", "-o", "t.bin") != 0
    assert (
        "the file contains machine code, but layer build needs OpenCL source code"
        in capsys.readouterr().err
    )
    assert not (described / "t.bin").exists()


def test_a_damaged_binary_layer_is_refused(described: Path, litert_npu: LitertNpu) -> None:
    assert litert_npu("layer", "build", "Softsign.json", "--model=model.tflite", "-o", "s.bin") == 0
    data = bytearray((described / "s.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (described / "s.bin").write_bytes(data)
    with pytest.raises(LiteRtError, match=r"changed after it was created.*s\.bin"):
        _apply(described, "s.bin")


def _devices(folder: Path) -> set[str]:
    layer = unpack_binary_layer((folder / "s.bin").read_bytes(), "s.bin")
    return {" ".join(code.device) for code in layer.codes}


def test_it_builds_for_each_device_or_for_the_one_that_is_named(
    described: Path, litert_npu: LitertNpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("layer", "build", "Softsign.json", "--model=model.tflite", "-o", "s.bin")
    devices = [device.info for device in find_devices()]
    assert litert_npu(*arguments) == 0
    assert _devices(described) == {" ".join(info.identity) for info in devices}
    for info in devices:
        monkeypatch.setenv("LITERT_NPU_OPENCL", f"{info.platform_version}:{info.name}")
        assert litert_npu(*arguments) == 0
        assert _devices(described) == {" ".join(info.identity)}


@pytest.mark.usefixtures("in_this_process")
def test_a_device_that_fails_is_named_and_the_others_have_code(
    described: Path, litert_npu: LitertNpu, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = find_devices()[0]
    bad = replace(good, info=replace(good.info, name="a device that crashes"))
    real = compiler_process.compile_in_child

    def compile_in_child(library: str, info: DeviceInfo, texts: Any) -> Any:
        if info == bad.info:
            raise LiteRtError(Status.COMPILATION, "the OpenCL compiler crashed (SIGSEGV)", "k.cl")
        return real(library, info, texts)

    monkeypatch.setattr(layer_build, "compile_in_child", compile_in_child)
    arguments = ("layer", "build", "Softsign.json", "--model=model.tflite", "-o", "s.bin")
    monkeypatch.setattr(layer_build, "find_devices", lambda: [bad, good])
    assert litert_npu(*arguments) == 0
    assert _devices(described) == {" ".join(good.info.identity)}
    printed = capsys.readouterr().out
    assert "not for" in printed and "a device that crashes" in printed and "SIGSEGV" in printed
    monkeypatch.setattr(layer_build, "find_devices", lambda: [bad])
    (described / "s.bin").unlink()
    assert litert_npu(*arguments) != 0
    assert "SIGSEGV" in capsys.readouterr().err and not (described / "s.bin").exists()


def _refused_with(name: str, reason: str) -> str:
    """Returns a kernel that does not build where the macro is defined."""
    return f"#ifdef {name}\n#error {reason}\n#endif\n{SOFTSIGN}"


def test_a_kernel_that_the_best_device_refuses_is_built_for_the_others(
    described: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    devices = [device.info for device in find_devices()]
    lacking = [info for info in devices if not info.has_fp16]
    if not devices[0].has_fp16 or not lacking:
        pytest.skip("no OpenCL driver without fp16 arithmetic beside one with it")
    source = described / "src" / "Softsign.cl"
    arguments = ("layer", "build", "Softsign.json", "--model=model.tflite", "-o", "s.bin")
    source.write_text(_refused_with("cl_khr_fp16", "not with fp16"))
    assert litert_npu(*arguments) == 0
    assert _devices(described) == {" ".join(info.identity) for info in lacking}
    printed = capsys.readouterr().out
    assert f"not for {devices[0]}: " in printed and "not with fp16" in printed
    (described / "s.bin").unlink()
    source.write_text(_refused_with("__OPENCL_VERSION__", "not at all"))
    assert litert_npu(*arguments) != 0
    printed = capsys.readouterr().err
    assert all(f"  {info}: " in printed for info in devices)
    assert printed.count("not at all") >= len(devices) and not (described / "s.bin").exists()


def test_code_for_another_processor_is_not_loaded(described: Path, litert_npu: LitertNpu) -> None:
    """Drivers identify CPUs by brand, and the same brand name may mean different instruction sets."""
    arguments = ("Softsign.json", "--model=model.tflite", "-o", "s.bin", "--nosource")
    assert litert_npu("layer", "build", *arguments) == 0
    layer = unpack_binary_layer((described / "s.bin").read_bytes(), "s.bin")
    codes = [
        replace(code, device=[*code.device[:-1], "GenuineIntel 6 1 1 0"]) for code in layer.codes
    ]
    (described / "s.bin").write_bytes(pack_binary_layer(replace(layer, codes=codes)))
    with pytest.raises(
        LiteRtError,
        match="the layer contains no source code, and no machine code for this machine's device, '",
    ):
        _result(_apply(described, "s.bin"), allow_native=True)


UPSCALE = """__kernel void Upscale(__global const float* x, __global float* y) {
  const size_t f = get_global_id(0), column = get_global_id(1);
  const size_t row = get_global_id(2) % OUTPUT0_DIMS[2], b = get_global_id(2) / OUTPUT0_DIMS[2];
  y[b * OUTPUT0_PITCHES[0] + f * OUTPUT0_PITCHES[1] + row * OUTPUT0_PITCHES[2] +
    column * OUTPUT0_PITCHES[3] + OUTPUT0_OFFSET] =
      x[((b * INPUT0_DIMS[2] + row / 2) * INPUT0_DIMS[3] + column / 2) * INPUT0_DIMS[1] + f];
}
"""


def _upscale(folder: Path, kernel: str = UPSCALE) -> None:
    """Writes a layer whose output shape depends on its input's, and models of dynamic and of fixed shape."""
    (folder / "upscale.cl").write_text(kernel)
    described = {
        "version": 1,
        "sources": ["upscale.cl"],
        "work_sizes": {"global": ["F", "X", "B*Y"]},
        "output_shapes": [["B", "Y*2", "X*2", "F"]],
    }
    (folder / "upscale.json").write_text(json.dumps(described))
    for name, signature in (("open", (-1, -1, -1, 2)), ("fixed", None)):
        b = ModelBuilder()
        x = b.input("x", "float32", (1, 3, 5, 2), shape_signature=signature)
        y = b.tensor("y", "float32", (1, 6, 10, 2), shape_signature=signature)
        b.output(b.custom("Upscale", [x], [y]))
        write_model(b.build(), str(folder / f"{name}.tflite"))


BUILD_OPEN = ("layer", "build", "upscale.json", "--model=open.tflite", "-o", "u.bin")
BOUNDS = {"x": (4, 64, 64, 2)}
OPEN_SHAPES = [(1, 8, 8, 2), (2, 5, 7, 2), (4, 64, 64, 2), (2, 5, 7, 2)]


def _apply_upscale(model: str) -> None:
    bounds = BOUNDS if model == "open.tflite" else {}
    options = CompilerOptions([CustomOpInfo("Upscale", "u.bin")], shape_bounds=bounds)
    apply_plugin(model, "u.npu", ApplyOptions(compiler=options))


@pytest.mark.parametrize("model", ["open.tflite", "fixed.tflite"])
def test_code_for_open_shapes_runs_on_every_shape(
    author: Path, litert_npu: LitertNpu, model: str
) -> None:
    _upscale(author)
    assert litert_npu(*BUILD_OPEN, "--shape_bounds=x:4x64x64x2", "--nosource") == 0
    _apply_upscale(model)
    options = Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU)
    options.allow_native_assets = True
    with CompiledModel.from_file("u.npu", options=options) as compiled:
        for shape in OPEN_SHAPES if model == "open.tflite" else [(1, 3, 5, 2)]:
            x = np.random.default_rng(1).random(shape, np.float32)
            np.testing.assert_array_equal(compiled.run({"x": x})["y"], x.repeat(2, 1).repeat(2, 2))


def test_without_consent_the_source_is_built_for_each_shape(
    author: Path, litert_npu: LitertNpu
) -> None:
    _upscale(author)
    assert litert_npu(*BUILD_OPEN, "--shape_bounds=x:4x64x64x2") == 0
    _apply_upscale("open.tflite")
    with CompiledModel.from_file("u.npu") as compiled:
        for shape in OPEN_SHAPES[:2]:
            x = np.random.default_rng(1).random(shape, np.float32)
            np.testing.assert_array_equal(compiled.run({"x": x})["y"], x.repeat(2, 1).repeat(2, 2))


def test_code_for_fixed_shapes_alone_says_how_to_open_them(
    author: Path, litert_npu: LitertNpu
) -> None:
    _upscale(author)
    fixed = [argument.replace("open", "fixed") for argument in BUILD_OPEN]
    assert litert_npu(*fixed, "--nosource") == 0
    options = CompilerOptions([CustomOpInfo("Upscale", "u.bin")], shape_bounds=BOUNDS)
    report = apply_plugin("open.tflite", "u.npu", ApplyOptions(compiler=options))
    (left,) = report.cpu_ops
    assert "compile the layer with --shape_bounds, or give its source" in left.reason


def test_a_bound_that_lacks_is_named(author: Path, litert_npu: LitertNpu, capsys: Capture) -> None:
    _upscale(author)
    assert litert_npu(*BUILD_OPEN) == 2
    assert "--shape_bounds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (
            "int height(void) { return INPUT0_DIMS[2]; }\n"
            + UPSCALE.replace("INPUT0_DIMS[2]", "height()"),
            "pass these arguments to the functions that the kernel calls",
        ),
        (
            "#define ENTRY(name) __kernel void name\nENTRY(Upscale)"
            + UPSCALE.partition("Upscale")[2],
            "parameters without macros",
        ),
    ],
)
def test_sizes_that_cannot_be_arguments_say_why(
    author: Path, litert_npu: LitertNpu, capsys: Capture, kernel: str, says: str
) -> None:
    _upscale(author, kernel)
    assert litert_npu(*BUILD_OPEN, "--shape_bounds=x:4x64x64x2") == 2
    assert says in capsys.readouterr().err
    assert not (author / "u.bin").exists()
