"""Each compiler with each runtime, for vendors in Python and native ones: one answer everywhere.

Stock is the wheel's own `apply_plugin_main` and `CompiledModel`, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, Environment, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model
from tests.interop.conftest import Array, Sample, StockTool, compile_in_stock, said
from tests.stock_litert import run_in_stock

OURS, STOCK = "ours", "stock"
BOTH = [OURS, STOCK]


def apply_ours(
    manufacturer: str, sample: Sample, output: Path, libs: tuple[Path, ...] = ()
) -> None:
    infos = [CustomOpInfo(op, str(path)) for op, path in sample.assets.items()]
    options = ApplyOptions(
        manufacturer,
        libs=list(map(str, libs)),
        require_npu=list(sample.assets),
        compiler=CompilerOptions(infos),
    )
    apply_plugin(sample.model, output, options)


def run_ours(compiled: Path, sample: Sample, libraries: Path | str = "") -> Mapping[str, Array]:
    environment = Environment.create(dispatch_library_path=str(libraries))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(str(compiled), accelerators, environment=environment) as model:
        return {name: np.array(found) for name, found in model.run(sample.inputs).items()}


def run_stock(compiled: Path, sample: Sample, libraries: Path) -> Mapping[str, Array]:
    run = run_in_stock(compiled, libraries, sample.inputs, runs=2)
    assert run.exit_status == 0, run.log
    return run.outputs


def check(compiled: Path, sample: Sample, outputs: Mapping[str, Array]) -> None:
    with read_model(compiled) as model:
        assert [op.name for op in model.ops() if not is_dispatch_op(op)] == sample.on_cpu
    for name, expected in sample.outputs.items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def reference_by(
    reference: Path,
    mixed: Sample,
    stock_apply_plugin: StockTool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, Path]:
    """The mixed model, compiled for the reference vendor by each compiler."""
    folder = tmp_path_factory.mktemp("compiled")
    apply_ours("Reference", mixed, folder / OURS)
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", mixed, folder / STOCK)
    assert done.returncode == 0, said(done)
    return {compiler: folder / compiler for compiler in BOTH}


@pytest.mark.parametrize("runtime", BOTH)
@pytest.mark.parametrize("compiler", BOTH)
def test_the_reference_vendor(
    compiler: str, runtime: str, reference: Path, reference_by: Mapping[str, Path], mixed: Sample
) -> None:
    compiled = reference_by[compiler]
    if runtime == OURS:
        check(compiled, mixed, run_ours(compiled, mixed))
    else:
        check(compiled, mixed, run_stock(compiled, mixed, reference))
