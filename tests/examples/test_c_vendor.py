"""Tests the C example as a whole vendor: it builds without a warning, and runs here and in stock LiteRT."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.load_flags import LoadChoice
from litert_npu_tools.profile_command import ProfileOptions, profile_model

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel, Environment, EnvironmentOptions, HardwareAccelerator
from litert.abi.headers import INCLUDE_FOLDER
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.stamp import read_stamp
from litert.model.writer import write_model
from tests.stock_litert import run_in_stock

StockTool = Callable[..., "subprocess.CompletedProcess[str]"]
SHAPE = (2, 3)
X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(SHAPE)
Z = np.linspace(5, -1, 6, dtype=np.float32).reshape(SHAPE)


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """The path of a model of y = tanh(x * z) squared; TANH stays on the CPU, between two calls."""
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", SHAPE), builder.input("z", "float32", SHAPE)
    t = builder.op("MUL", [x, z], [("t", "float32", SHAPE)])
    u = builder.op("TANH", [t], [("u", "float32", SHAPE)])
    y = builder.op("MUL", [u, u], [("y", "float32", SHAPE)])
    builder.output(y)
    builder.signature("serving_default", {"x": x, "z": z}, {"y": y})
    write_model(builder.build(), tmp_path / "products.tflite")
    return tmp_path / "products.tflite"


def test_an_option_that_it_does_not_have_is_refused(
    c_vendor: Path, products: Path, tmp_path: Path
) -> None:
    options = ApplyOptions(
        soc_manufacturer="Cobalt",
        libs=[str(c_vendor)],
        compiler=CompilerOptions(vendor_options={"cobalt_tiles": "4"}),
    )
    with pytest.raises(
        LiteRtError, match="Cobalt has no options, but the command line has tiles = 4"
    ) as error:
        apply_plugin(products, tmp_path / "out.tflite", options)
    assert error.value.status is Status.INVALID_TOOL_CONFIG


def test_it_builds_where_the_headers_are_in_a_folder_with_a_space(tmp_path: Path) -> None:
    headers = tmp_path / "some where"
    headers.symlink_to(INCLUDE_FOLDER)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "{headers}"\n')
    python.chmod(0o755)
    assert make(python, tmp_path / "built").returncode == 0
    assert len(list((tmp_path / "built").glob("*.so"))) == 2


def test_a_python_without_this_package_is_what_the_build_complains_of(tmp_path: Path) -> None:
    done = make("false", tmp_path / "built")
    assert done.returncode != 0 and "false has no litert-npu" in done.stderr


def make(python: object, build: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip("no C compiler, or no make")
    example = Path(__file__).resolve().parents[2] / "examples" / "06_c_vendor"
    command = ["make", "-s", "-C", str(example), f"PYTHON={python}", f"BUILD={build}"]
    return subprocess.run(command, capture_output=True, text=True)


def apply_stock(tool: StockTool, libs: Path, model: Path, output: Path) -> None:
    flags = ["--soc_manufacturer=Cobalt", "--soc_model=C1", f"--libs={libs}"]
    done = tool("--cmd=apply", f"--model={model}", f"--o={output}", *flags)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stock_compiles_and_runs_it(
    c_vendor: Path, products: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    compiled = tmp_path / "products_npu.tflite"
    apply_stock(stock_apply_plugin, c_vendor, products, compiled)
    with read_model(compiled) as model:
        ops = [op.name for op in model.subgraphs[0].ops]
        stamp = read_stamp(model)
    assert ops == ["DISPATCH_OP", "TANH", "DISPATCH_OP"]
    assert stamp is not None and (stamp.soc_manufacturer, stamp.soc_model) == ("Cobalt", "C1")
    run = run_in_stock(compiled, c_vendor, {"x": X, "z": Z}, runs=3)
    assert run.exit_status == 0, run.log
    np.testing.assert_allclose(run.outputs["y"], np.tanh(X * Z) ** 2, rtol=1e-6)


def test_an_op_has_its_own_order_of_the_calls_inputs(
    c_vendor: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", SHAPE), builder.input("z", "float32", SHAPE)
    y = builder.op("SUB", [z, x], [("y", "float32", SHAPE)])
    builder.output(y)
    builder.signature("serving_default", {"x": x, "z": z}, {"y": y})
    write_model(builder.build(), tmp_path / "m.tflite")
    apply_stock(stock_apply_plugin, c_vendor, tmp_path / "m.tflite", tmp_path / "o.tflite")
    with read_model(tmp_path / "o.tflite") as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["DISPATCH_OP"]
    run = run_in_stock(tmp_path / "o.tflite", c_vendor, {"x": X, "z": Z})
    np.testing.assert_array_equal(run.outputs["y"], Z - X)
    with load(c_vendor, tmp_path / "o.tflite") as here:
        np.testing.assert_array_equal(here.run({"x": X, "z": Z})["y"], Z - X)


@pytest.mark.parametrize(
    "reason", ["it broadcasts", "it has an activation", "it is integer", "a factor is constant"]
)
def test_what_its_npu_cannot_do_stays_on_the_cpu(
    c_vendor: Path, tmp_path: Path, stock_apply_plugin: StockTool, reason: str
) -> None:
    builder = ModelBuilder()
    element = "int32" if "integer" in reason else "float32"
    x = builder.input("x", element, (3,))
    z = builder.input("z", element, (1,) if "broadcasts" in reason else (3,))
    if "constant" in reason:
        z = builder.constant("c", X[1])
    activation = "RELU" if "activation" in reason else "NONE"
    result = [("y", element, (3,))]
    builder.output(builder.op("MUL", [x, z], result, fused_activation_function=activation))
    write_model(builder.build(), tmp_path / "m.tflite")
    apply_stock(stock_apply_plugin, c_vendor, tmp_path / "m.tflite", tmp_path / "o.tflite")
    with read_model(tmp_path / "o.tflite") as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["MUL"]
    (op,) = apply_ours(c_vendor, tmp_path / "m.tflite", tmp_path / "o.tflite", None).cpu_ops
    tensors = "the op's tensors are not float32, are constant, or have different or unknown shapes"
    activation = "the op has a fused activation or several outputs"
    assert op.reason == (activation if "activation" in reason else tensors)


def test_an_unknown_soc_model_is_refused(
    c_vendor: Path, products: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    flags = ["--soc_manufacturer=Cobalt", "--soc_model=C9", f"--libs={c_vendor}"]
    output = tmp_path / "o.tflite"
    done = stock_apply_plugin("--cmd=apply", f"--model={products}", f"--o={output}", *flags)
    assert done.returncode != 0
    assert "[Cobalt] there is no SoC model 'C9'" in done.stdout + done.stderr


@pytest.fixture
def gained(tmp_path: Path) -> Path:
    """The path of a model of y = Gain(x * z)."""
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", SHAPE), builder.input("z", "float32", SHAPE)
    product = builder.op("MUL", [x, z], [("product", "float32", SHAPE)])
    y = builder.custom("Gain", [product], [("y", "float32", SHAPE)])
    builder.output(y)
    builder.signature("serving_default", {"x": x, "z": z}, {"y": y})
    write_model(builder.build(), tmp_path / "gained.tflite")
    return tmp_path / "gained.tflite"


def apply_ours(libs: Path, model: Path, output: Path, asset: str | None) -> Report:
    infos = []
    if asset is not None:
        output.with_suffix(".txt").write_text(asset)
        infos = [CustomOpInfo("Gain", str(output.with_suffix(".txt")))]
    options = ApplyOptions(
        soc_manufacturer="Cobalt", libs=[str(libs)], compiler=CompilerOptions(infos)
    )
    return apply_plugin(model, output, options)


def load(libs: Path, model: Path) -> CompiledModel:
    environment = Environment.create(options=EnvironmentOptions(dispatch_library_path=str(libs)))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    return CompiledModel.from_file(str(model), accelerators, environment=environment)


def test_our_host_compiles_and_runs_it_with_assets(
    c_vendor: Path, gained: Path, tmp_path: Path
) -> None:
    files = {gain: tmp_path / f"{index}.tflite" for index, gain in enumerate(("3.0", "-0.5\n"))}
    for gain, file in files.items():
        apply_ours(c_vendor, gained, file, gain)
    with load(c_vendor, files["3.0"]) as three, load(c_vendor, files["-0.5\n"]) as half:
        three.start_metrics_collection()
        for _ in range(4):
            np.testing.assert_allclose(three.run({"x": X, "z": Z})["y"], 3 * X * Z, rtol=1e-6)
            np.testing.assert_allclose(half.run({"x": X, "z": Z})["y"], -X * Z / 2, rtol=1e-6)
        calls = three.stop_metrics_collection().calls
    assert [(metric.name, metric.value) for call in calls for metric in call.vendor] == [
        ("runs", 4),
        ("runs", 4),
    ]


def test_an_op_without_an_asset_stays_on_the_cpu(
    c_vendor: Path, gained: Path, tmp_path: Path
) -> None:
    report = apply_ours(c_vendor, gained, tmp_path / "o.tflite", None)
    with read_model(tmp_path / "o.tflite") as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["DISPATCH_OP", "Gain"]
    reason = "op Gain has no asset: give a file by --npu_custom_op_info=Gain,FILE"
    assert [(op.name, op.reason) for op in report.cpu_ops] == [("Gain", reason)]


@pytest.mark.parametrize("asset", ["", "loud", "9" * 40], ids=["empty", "a word", "too long"])
def test_an_asset_that_is_no_number_is_refused_by_the_driver(
    c_vendor: Path, gained: Path, tmp_path: Path, asset: str
) -> None:
    apply_ours(c_vendor, gained, tmp_path / "o.tflite", asset)
    with pytest.raises(LiteRtError, match="'Cobalt', in invocation_context_create of 'f1'"):
        load(c_vendor, tmp_path / "o.tflite")


def test_its_calls_and_the_op_between_them_are_profiled(
    c_vendor: Path, products: Path, tmp_path: Path
) -> None:
    apply_ours(c_vendor, products, tmp_path / "o.tflite", None)
    load = LoadChoice(environment=EnvironmentOptions(dispatch_library_path=str(c_vendor)))
    report = profile_model(str(tmp_path / "o.tflite"), ProfileOptions(load, runs=10))
    calls = [row for row in report.rows if row.kind == "npu_call"]
    assert sorted(row.ops[0].index for row in calls) == [0, 2]
    assert [dict(row.details) for row in calls] == [{"runs": 2}, {"runs": 2}]  # of the last turn
    assert sum(row.share for row in report.rows if row.parent < 0) == pytest.approx(1)
    tanh = [row for row in report.rows if [op.name for op in row.ops] == ["TANH"]]
    assert tanh and tanh[0].runs_per_run == 1
