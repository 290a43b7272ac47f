"""Tests a C vendor whose output shape only a run determines; stock's compiler leaves such ops on the CPU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel, Environment, HardwareAccelerator
from litert.abi.headers import INCLUDE_FOLDER
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.manifest import ShapeOutput, read_manifest
from litert.model.reader import read_model
from litert.model.writer import write_model

StockTool = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def zircon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("zircon")
    sources = Path(__file__).parent / "vendors" / "zircon"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC", "-shared"]
    for source, name in (("plugin.c", "CompilerPlugin"), ("dispatch.c", "Dispatch")):
        library = folder / f"libLiteRt{name}_Zircon.so"
        include = f"-I{INCLUDE_FOLDER}"
        subprocess.run(["cc", *flags, include, "-o", library, sources / source, "-ldl"], check=True)
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with two custom ops of dynamic output shape, each followed by an op on the CPU."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (8,))
    for name, sign in (("found", "ABS"), ("found:1", "NEG")):
        given = builder.op(sign, [x], [(f"{name}/given", "float32", (8,))])
        found = builder.tensor(name, "float32", (1,), shape_signature=(-1,))
        builder.custom("Positive", [given], [found])
        y = builder.tensor(f"{name}/y", "float32", (1,), shape_signature=(-1,))
        builder.output(builder.op("SQUARE", [found], [y]))
    write_model(builder.build(), tmp_path / "positive.tflite")
    return tmp_path / "positive.tflite"


def compile_model(
    zircon: Path, model: Path, bounds: Mapping[str, Sequence[int]], target: Path
) -> Report:
    compiler = CompilerOptions(shape_bounds=bounds)
    options = ApplyOptions(soc_manufacturer="Zircon", libs=[str(zircon)], compiler=compiler)
    return apply_plugin(model, target, options)


def test_a_run_tells_the_shape_of_an_output_of_a_vendor_in_c(
    zircon: Path, model: Path, tmp_path: Path
) -> None:
    target = tmp_path / "npu.tflite"
    report = compile_model(zircon, model, {"found": (8,), "found:1": (5,)}, target)
    assert [call.num_ops for call in report.calls] == [1, 1]
    with read_model(target) as compiled:
        manifest = read_manifest(compiled)
    assert manifest and set(manifest.shape_outputs) == {
        ShapeOutput("f0", 0, 1), ShapeOutput("f1", 0, 1),
    }  # fmt: skip
    environment = Environment.create(dispatch_library_path=str(zircon))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(str(target), accelerators, environment=environment) as loaded:
        for negative in (2, 5, 0, 3):
            x = np.arange(1, 9, dtype=np.float32)
            x[:negative] *= -1
            outputs = loaded.run({"x": x})
            assert np.array_equal(outputs["found/y"], x * x)
            assert np.array_equal(outputs["found:1/y"], x[:negative] ** 2)
        with pytest.raises(LiteRtError, match="RUNTIME_FAILURE"):
            loaded.run({"x": np.array([-1] * 6 + [1] * 2, np.float32)})


def test_without_a_bound_the_op_stays_on_the_cpu(
    zircon: Path, model: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    """Stock's compiler does the same for each op, as it has no shape bounds."""
    report = compile_model(zircon, model, {"found:1": (5,)}, tmp_path / "npu.tflite")
    assert [call.num_ops for call in report.calls] == [1]
    done = stock_apply_plugin(
        "--cmd=apply",
        f"--model={model}",
        f"--o={tmp_path / 'stock.tflite'}",
        f"--libs={zircon}",
        "--soc_manufacturer=Zircon",
        "--soc_model=Z1",
    )
    assert "DISPATCH" not in done.stdout and "undefined symbol" not in done.stdout + done.stderr
    with read_model(tmp_path / "stock.tflite") as compiled:
        assert [op.name for op in compiled.ops()].count("Positive") == 2
