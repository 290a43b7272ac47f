"""Tests each compiler with each runtime, for Python and native vendors: all combinations give the same results.

Stock is the wheel's unchanged `apply_plugin_main` and `CompiledModel`. Our own host loads exported libraries of
Python vendors in the same way as libraries of native vendors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, Environment, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import is_dispatch_op
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.interop.conftest import (
    EXAMPLES,
    VENDORS,
    Array,
    Sample,
    StockTool,
    compile_in_stock,
    export,
    said,
)
from tests.stock_litert import run_in_ours, run_in_stock

PYTHON, NATIVE, STOCK = "ours, in Python", "ours, native", "stock"
HOSTS = (PYTHON, NATIVE, STOCK)


@dataclass(frozen=True)
class Vendor:
    """A vendor and its test model.

    Attributes:
      manufacturer: the vendor's name.
      python: the folder of its Python files; "" for an installed vendor; None for a vendor without Python files.
      compiler, dispatch: the folders of its libraries.
      sample: the model for this vendor.
      options: the vendor's options, for our compiler.
      flags: the same options, as flags for stock's compiler.
    """

    manufacturer: str
    python: Path | str | None
    compiler: Path
    dispatch: Path
    sample: Sample
    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


def compile_by(host: str, vendor: Vendor, output: Path, tool: StockTool) -> None:
    sample = vendor.sample
    if host == STOCK:
        libraries, name = vendor.compiler, vendor.manufacturer
        done = compile_in_stock(tool, libraries, name, sample, output, flags=vendor.flags)
        assert done.returncode == 0, said(done)
        return
    folder = vendor.compiler if host == NATIVE else vendor.python
    infos = [CustomOpInfo(op, str(path)) for op, path in sample.assets.items()]
    compiler = CompilerOptions(infos, vendor_options=vendor.options)
    libs = [str(folder)] if folder else []
    apply_plugin(
        sample.model, output, ApplyOptions(vendor.manufacturer, libs=libs, compiler=compiler)
    )


def run_by(host: str, vendor: Vendor, compiled: Path) -> Mapping[str, Array]:
    inputs = vendor.sample.inputs
    if host != PYTHON:  # in a child process
        run = (run_in_stock if host == STOCK else run_in_ours)(
            compiled, vendor.dispatch, inputs, runs=2
        )
        assert run.exit_status == 0, run.log
        return run.outputs
    environment = Environment.create(dispatch_library_path=str(vendor.python or ""))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    with CompiledModel.from_file(str(compiled), accelerators, environment=environment) as model:
        return {name: np.array(found) for name, found in model.run(inputs).items()}


@pytest.fixture(scope="session")
def compiled(
    stock_apply_plugin: StockTool, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Vendor], Path]:
    """A function that compiles a vendor's sample with a host's compiler, once for each host and vendor."""
    made: dict[tuple[str, str], Path] = {}

    def make(host: str, vendor: Vendor) -> Path:
        key = host, vendor.manufacturer
        if key not in made:
            path = tmp_path_factory.mktemp("compiled") / "model.tflite"
            compile_by(host, vendor, path, stock_apply_plugin)
            made[key] = path
        return made[key]

    return make


Compiled = Callable[[str, Vendor], Path]


def check(vendor: Vendor, compiler: str, runtime: str, compiled: Compiled) -> None:
    """Checks that the compiler left only the expected ops on the CPU, and that the outputs equal NumPy's."""
    path = compiled(compiler, vendor)
    with read_model(path) as model:
        left = [op.name for op in model.ops() if not is_dispatch_op(op)]
    assert left == vendor.sample.on_cpu
    outputs = run_by(runtime, vendor, path)
    for name, expected in vendor.sample.outputs.items():
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-5, atol=1e-6)


def cells(*hosts: str) -> list[tuple[str, str]]:
    return list(product(hosts, hosts))


@pytest.mark.parametrize(("compiler", "runtime"), cells(PYTHON, STOCK))
def test_the_reference_vendor(
    compiler: str, runtime: str, reference: Path, mixed: Sample, compiled: Compiled
) -> None:
    vendor = Vendor("Reference", "", reference, reference, mixed)
    check(vendor, compiler, runtime, compiled)


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory, mixed: Sample) -> Vendor:
    folder = VENDORS / "mirror"
    libraries = export(tmp_path_factory.mktemp("mirror"), *sorted(folder.glob("*.py")))
    return Vendor("Mirror", folder, libraries, libraries, mixed)


@pytest.mark.parametrize(("compiler", "runtime"), [c for c in cells(*HOSTS) if NATIVE in c])
def test_the_reference_vendor_as_a_native_one(
    compiler: str, runtime: str, mirror: Vendor, compiled: Compiled
) -> None:
    check(mirror, compiler, runtime, compiled)


@pytest.mark.parametrize("compiler", [NATIVE, STOCK])
def test_a_constant_that_dequantize_makes_far_before_its_op(
    compiler: str, mirror: Vendor, apart: Sample, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    vendor = replace(mirror, sample=apart)
    compile_by(compiler, vendor, tmp_path / "out", stock_apply_plugin)
    check(vendor, compiler, STOCK, lambda *_: tmp_path / "out")


@pytest.mark.parametrize(("compiler", "runtime"), cells(*HOSTS))
def test_a_vendor_that_is_installed_nowhere(
    compiler: str, runtime: str, acme: Path, gains: Sample, compiled: Compiled
) -> None:
    vendor = Vendor("Acme", EXAMPLES / "03_vendor", acme, acme, gains)
    check(vendor, compiler, runtime, compiled)


@cache
def products(folder: Path) -> Sample:
    """Returns a model of `y = tanh(x z) tanh(x z)`; TANH stays on the CPU."""
    x = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
    z = np.linspace(5, -1, 6, dtype=np.float32).reshape(2, 3)
    b = ModelBuilder()
    inputs = [b.input(name, "float32", x.shape) for name in "xz"]
    product_of_both = b.op("MUL", inputs, [("t", "float32", x.shape)])
    bent = b.op("TANH", [product_of_both], [("u", "float32", x.shape)])
    b.output(b.op("MUL", [bent, bent], [("y", "float32", x.shape)]))
    b.signature("main")
    write_model(b.build(), folder / "products.tflite")
    expected = {"y": np.tanh(x * z) ** 2}
    return Sample(folder / "products.tflite", {}, {"x": x, "z": z}, expected, ["TANH"])


@pytest.mark.parametrize(("compiler", "runtime"), cells(NATIVE, STOCK))
def test_a_vendor_in_c(
    compiler: str,
    runtime: str,
    c_vendor: Path,
    tmp_path_factory: pytest.TempPathFactory,
    compiled: Compiled,
) -> None:
    sample = products(tmp_path_factory.getbasetemp())
    vendor = Vendor("Cobalt", None, c_vendor, c_vendor, sample, flags=("--soc_model=C1",))
    check(vendor, compiler, runtime, compiled)


@cache
def sums(folder: Path) -> Sample:
    """Returns a model of `y = x + z`."""
    x, z = np.random.default_rng(2).normal(size=(2, 1, 4)).astype(np.float32)
    b = ModelBuilder()
    inputs = [b.input(name, "float32", x.shape) for name in "xz"]
    b.output(b.op("ADD", inputs, [("y", "float32", x.shape)]))
    b.signature("main")
    write_model(b.build(), folder / "sums.tflite")
    return Sample(folder / "sums.tflite", {}, {"x": x, "z": z}, {"y": x + z}, [])


@pytest.mark.parametrize(("compiler", "runtime"), cells(NATIVE, STOCK))
def test_a_real_vendor_s_library(
    compiler: str,
    runtime: str,
    intel: Path,
    tmp_path_factory: pytest.TempPathFactory,
    compiled: Compiled,
) -> None:
    flags = {"intel_openvino_graph_backends": "cpu"}
    vendor = Vendor(
        "IntelOpenVINO",
        None,
        intel / "compiler",
        intel / "dispatch",
        sums(tmp_path_factory.getbasetemp()),
        flags,
        ("--soc_model=PTL", *(f"--{name}={value}" for name, value in flags.items())),
    )
    check(vendor, compiler, runtime, compiled)
