"""Tests that vendors' unchanged dispatch libraries run here with the same results as in stock LiteRT."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.load_flags import LoadChoice
from litert_npu_tools.profile_command import ProfileOptions, profile_model

from litert import CompiledModel, Environment, Options
from litert.core.environment_options import EnvironmentOptions
from litert.model.assets import Asset, set_assets
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.stock_litert import Arrays, StockRun, run_in_ours, run_in_stock

Compile = Callable[[Path], Path]
SHAPE = (1, 8)


@pytest.fixture
def compile_for_intel(
    intel: Path, tmp_path: Path, stock_apply_plugin: Callable[..., subprocess.CompletedProcess[str]]
) -> Compile:
    """Returns a function that compiles a model with stock's tool and Intel's plugin."""

    def compile_model(path: Path) -> Path:
        compiled = tmp_path / f"{path.stem}_intel.tflite"
        done = stock_apply_plugin(
            "--cmd=apply",
            f"--model={path}",
            f"--o={compiled}",
            "--soc_manufacturer=IntelOpenVINO",
            "--soc_model=PTL",
            f"--libs={intel / 'compiler'}",
            "--intel_openvino_graph_backends=cpu",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return compiled

    return compile_model


def names_of_ops(path: Path) -> list[str]:
    with read_model(path) as model:
        return [op.name for op in model.subgraphs[0].ops]


def random_inputs(path: Path) -> Arrays:
    random = np.random.default_rng(0)
    with read_model(path) as model:
        return {
            tensor.name: random.random(tensor.type.shape, dtype=np.float32)
            for tensor in model.subgraphs[0].inputs
        }


def check_same(ours: StockRun, stock: StockRun) -> None:
    assert stock.exit_status == 0, stock.log
    assert ours.exit_status == 0, ours.log
    assert list(ours.outputs) == list(stock.outputs)
    for name, expected in stock.outputs.items():
        np.testing.assert_array_equal(ours.outputs[name], expected)


@pytest.fixture
def between_cpu_ops(tmp_path: Path) -> Path:
    """A model of `y = atan2(x + z, z) * x`: Intel's plugin takes ADD and MUL, but not ATAN2."""
    builder = ModelBuilder()
    x, z = builder.input("x", "float32", SHAPE), builder.input("z", "float32", SHAPE)
    total = builder.op("ADD", [x, z], [("total", "float32", SHAPE)])
    angle = builder.op("ATAN2", [total, z], [("angle", "float32", SHAPE)])
    y = builder.op("MUL", [angle, x], [("y", "float32", SHAPE)])
    builder.output(y)
    builder.signature("serving_default", {"x": x, "z": z}, {"y": y})
    write_model(builder.build(), tmp_path / "between.tflite")
    return tmp_path / "between.tflite"


def test_intels_library_runs_between_ops_on_the_cpu(
    intel: Path, compile_for_intel: Compile, between_cpu_ops: Path
) -> None:
    compiled = compile_for_intel(between_cpu_ops)
    assert names_of_ops(compiled) == ["DISPATCH_OP", "ATAN2", "DISPATCH_OP"]
    inputs = random_inputs(compiled)
    ours = run_in_ours(compiled, intel / "dispatch", inputs, runs=3)
    check_same(ours, run_in_stock(compiled, intel / "dispatch", inputs, runs=3))
    x, z = inputs["x"], inputs["z"]
    np.testing.assert_allclose(ours.outputs["y"], np.arctan2(x + z, z) * x, rtol=1e-5)


def test_intels_library_runs_in_a_process_of_its_own(
    intel: Path, compile_for_intel: Compile, between_cpu_ops: Path
) -> None:
    compiled = compile_for_intel(between_cpu_ops)
    inputs = random_inputs(compiled)
    folder = EnvironmentOptions(dispatch_library_path=str(intel / "dispatch"))
    with CompiledModel.from_file(
        str(compiled),
        environment=Environment.create(options=folder),
        options=Options(isolated=True),
    ) as model:
        outputs = [model.run(inputs)["y"] for _ in range(3)]
    expected = run_in_ours(compiled, intel / "dispatch", inputs).outputs["y"]
    np.testing.assert_array_equal(outputs, [expected] * 3)


@pytest.mark.parametrize(
    "network", ["face_detection_short_range", "hand_landmark_lite", "palm_detection_lite"]
)
def test_intels_library_runs_networks_as_in_stock(
    intel: Path, compile_for_intel: Compile, networks: Path, network: str
) -> None:
    compiled = compile_for_intel(networks / f"{network}.tflite")
    assert "DISPATCH_OP" in names_of_ops(compiled)
    inputs = random_inputs(compiled)
    ours = run_in_ours(compiled, intel / "dispatch", inputs, runs=2)
    check_same(ours, run_in_stock(compiled, intel / "dispatch", inputs, runs=2))


def test_intels_library_is_told_of_no_assets_and_the_log_says_so(
    intel: Path, compile_for_intel: Compile, between_cpu_ops: Path, tmp_path: Path
) -> None:
    path = with_asset(compile_for_intel(between_cpu_ops), "Gain", b"3", tmp_path)
    run = run_in_ours(path, intel / "dispatch", random_inputs(path))
    assert run.exit_status == 0, run.log
    assert run.log.count("does not export LiteRtDispatchRegisterAsset") == 1


def with_asset(path: Path, op: str, data: bytes, folder: Path) -> Path:
    """Writes a compiled file again with one asset, and returns its path."""
    with read_model(path) as model:
        set_assets(model, [Asset(op, "", Blob(data))])
        write_model(model, folder / "with_asset.tflite")
    return folder / "with_asset.tflite"


def test_a_library_is_found_by_name_and_not_by_being_first(
    c_vendor: Path, intel: Path, compile_for_intel: Compile, between_cpu_ops: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "drivers"
    shutil.copytree(c_vendor, folder / "a")
    (library,) = (intel / "dispatch").glob("*.so")
    (folder / library.name).symlink_to(library)
    compiled = compile_for_intel(between_cpu_ops)
    inputs = random_inputs(compiled)
    ours = run_in_ours(compiled, folder, inputs)
    check_same(ours, run_in_stock(compiled, intel / "dispatch", inputs))


def test_intels_calls_are_profiled(
    intel: Path, compile_for_intel: Compile, between_cpu_ops: Path
) -> None:
    compiled = compile_for_intel(between_cpu_ops)
    environment = EnvironmentOptions(dispatch_library_path=str(intel / "dispatch"))
    report = profile_model(
        str(compiled), ProfileOptions(LoadChoice(environment=environment), runs=10)
    )
    rows = {(row.kind, row.ops[0].index) for row in report.rows if row.parent < 0 and row.ops}
    assert rows == {("npu_call", 0), ("cpu_op", 1), ("npu_call", 2)}
    assert sum(row.share for row in report.rows if row.parent < 0) == pytest.approx(1)
