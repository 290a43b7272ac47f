"""Tests exported Python plugins in the tool and the runtime of stock LiteRT's wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from compiler_plugin.isolation.hosting import Hosting
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, Environment, HardwareAccelerator
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.version import SDK_VERSION
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.byte_code_container import unpack
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import Tensor
from litert.model.reader import read_model
from litert.model.stamp import read_stamp
from litert.model.writer import write_model
from tests.interop.conftest import (
    EXAMPLES,
    VENDORS,
    Sample,
    StockTool,
    compile_in_stock,
    export,
    said,
)
from tests.stock_litert import run_in_stock

CONVOLUTION = "Convolution2DTransposeBias"


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Twin's libraries."""
    return export(tmp_path_factory.mktemp("twin"), *sorted((VENDORS / "twin").glob("*.py")))


def test_two_exported_plugins_live_in_one_tool(
    reference: Path,
    acme: Path,
    gains: Sample,
    mixed: Sample,
    tmp_path: Path,
    stock_apply_plugin: StockTool,
) -> None:
    folder = tmp_path / "libs"
    folder.mkdir()
    for library in (*reference.iterdir(), *acme.iterdir()):
        (folder / library.name).symlink_to(library)
    done = stock_apply_plugin("--cmd=info", f"--libs={folder}", f"--o={tmp_path / 'info'}")
    assert done.returncode == 0, said(done)
    told = (tmp_path / "info").read_text()
    assert "Reference" in told and "Acme" in told
    for manufacturer, sample in (("Acme", gains), ("Reference", mixed)):
        output = tmp_path / manufacturer
        environment = {"LITERT_NPU_OPTIONS": "reference_fp16=float;acme_nothing=1"}
        done = compile_in_stock(
            stock_apply_plugin, folder, manufacturer, sample, output, environment
        )
        assert done.returncode == 0, said(done)
        with read_model(output) as model:
            stamp = read_stamp(model)
            assert stamp is not None and stamp.soc_manufacturer == manufacturer


@pytest.mark.parametrize(
    "in_process", [False, True], ids=["in a process of its own", "in this process"]
)
def test_why_ops_stay_on_the_cpu_is_in_our_report(
    reference: Path, tmp_path: Path, in_process: bool
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    y = b.custom(
        "Sinh", [b.op("ADD", [x, x], [("a", "float32", (1, 4))])], [("s", "float32", (1, 4))]
    )
    b.output(b.op("L2_NORMALIZATION", [y], [("n", "float32", (1, 4))]))
    model = b.build()
    write_model(model, tmp_path / "model.tflite")
    kernel = CustomOpInfo("Sinh", str(EXAMPLES / "kernels" / "Sinh.cl"))
    reasons = []
    for libs in ([], [str(reference)]):
        options = ApplyOptions(
            libs=libs,
            compiler=CompilerOptions([kernel], vendor_options={"reference_ops": "MUL"}),
            hosting=Hosting(in_process=in_process),
        )
        report = apply_plugin(tmp_path / "model.tflite", tmp_path / "npu.tflite", options)
        assert [op.name for op in report.npu_ops] == ["Sinh"]
        reasons.append({op.name: op.reason for op in report.cpu_ops})
    python, exported = reasons
    assert exported["ADD"] == python["ADD"] and "--reference_ops" in exported["ADD"]
    assert "L2_NORMALIZATION" in exported


def test_a_model_is_compiled_when_stock_loads_it(reference: Path, mixed: Sample) -> None:
    environment = {"LITERT_NPU_CUSTOM_OP_INFO": mixed.custom_op_info}
    run = run_in_stock(
        mixed.model, reference, mixed.inputs, plugin_folder=reference, environment=environment
    )
    assert run.exit_status == 0, run.log
    for name, expected in mixed.outputs.items():
        np.testing.assert_allclose(run.outputs[name], expected, rtol=1e-5, atol=1e-6)


def test_modules_at_odd_offsets_each_carry_their_asset(
    twin: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (3,))
    one = b.custom("One", [x], [("one", "float32", (3,))])
    b.output(b.custom("Two", [one], [("y", "float32", (3,))]))
    b.signature("main")
    write_model(b.build(), tmp_path / "model.tflite")
    for name, number in (("One", "1.5"), ("Two", "200")):
        (tmp_path / name).write_text(number)
    assets = {name: tmp_path / name for name in ("One", "Two")}
    inputs = {"x": np.arange(3, dtype=np.float32)}
    sample = Sample(tmp_path / "model.tflite", assets, inputs, {}, [])
    done = compile_in_stock(stock_apply_plugin, twin, "Twin", sample, tmp_path / "compiled")
    assert done.returncode == 0, said(done)
    with read_model(tmp_path / "compiled") as model:
        modules = [module.blob for module in model.byte_code]
        assert any(module.offset % 2 for module in modules)
        carried = [[asset.name for asset in unpack(module)[1]] for module in modules]
    assert sorted(carried) == [["One"], ["Two"]]  # stock writes modules in any order
    run = run_in_stock(tmp_path / "compiled", twin, inputs)
    assert run.exit_status == 0, run.log
    np.testing.assert_array_equal(run.outputs["y"], inputs["x"] + 201.5)
    environment = Environment.create(dispatch_library_path=str(VENDORS / "twin"))
    accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    compiled = str(tmp_path / "compiled")
    with CompiledModel.from_file(compiled, accelerators, environment=environment) as loaded:
        np.testing.assert_array_equal(loaded.run(inputs)["y"], inputs["x"] + 201.5)


def test_a_model_without_an_op_for_the_npu_is_stamped_and_runs(
    reference: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (3,))
    b.output(b.op("ABS", [x], [("y", "float32", (3,))]))
    b.signature("main")
    write_model(b.build(), tmp_path / "model.tflite")
    inputs = {"x": np.array([-1, 0, 2], np.float32)}
    sample = Sample(tmp_path / "model.tflite", {}, inputs, {}, ["ABS"])
    flags = ["--soc_model=EMU4"]
    done = compile_in_stock(
        stock_apply_plugin, reference, "Reference", sample, tmp_path / "out", flags=flags
    )
    assert done.returncode == 0, said(done)
    with read_model(tmp_path / "out") as model:
        stamp = read_stamp(model)
        assert stamp is not None and stamp.soc_model == "EMU4"
        assert [op.name for op in model.ops()] == ["ABS"]
    run = run_in_stock(tmp_path / "out", reference, inputs)
    assert run.exit_status == 0, run.log
    np.testing.assert_array_equal(run.outputs["y"], np.abs(inputs["x"]))


def failing_kernel(folder: Path) -> dict[str, str]:
    (folder / "Softsign.cl").write_text("__kernel void Softsign(nonsense) {}")
    return {"LITERT_NPU_CUSTOM_OP_INFO": f"Softsign,{folder}/Softsign.cl"}


FAILURES: dict[str, tuple[Any, str]] = {
    "a kernel that does not build": (failing_kernel, "Softsign.cl"),
    "an asset that is not there": (
        lambda folder: {"LITERT_NPU_CUSTOM_OP_INFO": "Softsign,/nowhere/s.cl"},
        "/nowhere/s.cl",
    ),
    "an asset without a path": (
        lambda folder: {"LITERT_NPU_CUSTOM_OP_INFO": "Softsign"},
        "--npu_custom_op_info='Softsign' has no comma",
    ),
    "an unknown option": (
        lambda folder: {"LITERT_NPU_OPTIONS": "reference_opz=all"},
        "no option 'reference_opz'",
    ),
    "an option of a wrong value": (
        lambda folder: {"LITERT_NPU_OPTIONS": "check_kernels=2"},
        "'check_kernels' is '2'",
    ),
}


@pytest.mark.parametrize(("make", "words"), FAILURES.values(), ids=FAILURES)
def test_what_goes_wrong_is_a_status_and_words_in_stock_s_log(
    make: Any,
    words: str,
    reference: Path,
    mixed: Sample,
    tmp_path: Path,
    stock_apply_plugin: StockTool,
) -> None:
    output = tmp_path / "out"
    environment = make(tmp_path)
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", mixed, output, environment)
    assert done.returncode > 0 and words in said(done), said(done)
    assert "ERROR: [litert_npu]" in said(done)
    assert not output.exists() or not output.stat().st_size  # stock itself leaves an empty file


def test_the_log_says_what_a_report_would(
    reference: Path, mixed: Sample, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    output = tmp_path / "out"
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", mixed, output)
    log = said(done)
    assert "INFO: [litert_npu] vendor Reference compiles for SoC model EMU8" in log, log
    assert "Reference takes 3 of 4 ops" in log  # DEQUANTIZE is folded
    assert "leaves 1 op (ABS) on the CPU: a builtin op" in log  # a hint follows
    assert log.count("LITERT_NPU_OPTIONS=name=value for another flag of a plugin") == 1
    assert SDK_VERSION in log


@pytest.mark.parametrize("kind", [".xml", ".bin"])
def test_a_network_with_layers_of_each_kind(
    kind: str,
    reference: Path,
    networks: Path,
    tmp_path: Path,
    stock_apply_plugin: StockTool,
) -> None:
    network = networks / "selfie_segmentation.tflite"
    asset = EXAMPLES / "kernels" / f"{CONVOLUTION}{kind}"
    if kind == ".bin":
        from litert_npu_tools.litert_npu import main

        asset = tmp_path / "layer.bin"
        source = str(EXAMPLES / "kernels" / f"{CONVOLUTION}.json")
        build = ["litert-npu", "layer", "build", source, "--nosource", f"--model={network}"]
        assert main([*build, "-o", str(asset)]) == 0
    x = np.random.default_rng(3).random((1, 256, 256, 3)).astype(np.float32)
    sample = Sample(network, {CONVOLUTION: asset}, {"input_1": x}, {}, [])
    output = tmp_path / "out.tflite"
    allowed = {"LITERT_NPU_OPTIONS": "allow_native_assets=true"}
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", sample, output, allowed)
    assert done.returncode == 0, said(done)
    with read_model(output) as model:
        assert CONVOLUTION not in {op.name for op in model.ops()}
    stock = Interpreter(str(network))
    stock.allocate_tensors()
    stock.set_tensor(stock.get_input_details()[0]["index"], x)
    stock.invoke()
    expected = stock.get_tensor(stock.get_output_details()[0]["index"])
    may_run = {"LITERT_NPU_DISPATCH_OPTIONS": "allow_native_assets=true"}
    run = run_in_stock(output, reference, sample.inputs, environment=may_run)
    assert run.exit_status == 0, run.log
    np.testing.assert_allclose(run.outputs["activation_10"], expected, atol=1e-4)
    if kind == ".bin":
        refused = run_in_stock(output, reference, sample.inputs)
        assert refused.exit_status != 0 and "allow_native_assets" in refused.log


def dynamic(folder: Path, has_rank: bool) -> Sample:
    """Returns a model of Softsign with a number of rows that is unknown until the run."""

    def open_rows(tensor: Tensor) -> Tensor:
        tensor.has_rank = has_rank
        return tensor

    b = ModelBuilder()
    x = open_rows(b.input("x", "float32", (1, 4), shape_signature=(-1, 4)))
    y = open_rows(b.tensor("y", "float32", (1, 4), shape_signature=(-1, 4)))
    b.output(b.custom("Softsign", [x], [y], options={"alpha": 2.0}))
    b.signature("main")
    write_model(b.build(), folder / "dynamic.tflite")
    rows = np.linspace(-2, 3, 4, dtype=np.float32)[None]
    expected = 2 * rows / (1 + np.abs(rows))
    assets = {"Softsign": EXAMPLES / "02_kernels" / "Softsign.cl"}
    return Sample(folder / "dynamic.tflite", assets, {"x": rows}, {"y": expected}, [])


def test_stock_compiles_open_dimensions_at_the_size_in_the_file(
    reference: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    sample, output = dynamic(tmp_path, has_rank=False), tmp_path / "out"
    bounds = {"LITERT_NPU_OPTIONS": "shape_bounds=x:8x4"}
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", sample, output, bounds)
    assert done.returncode == 0, said(done)
    assert (
        "the shape bound of tensor 'x' is ignored, because this host gives the tensor the fixed shape"
        in said(done)
    )
    with read_model(output) as model:
        assert [op.name for op in model.ops()] == [DISPATCH_OP]
    run = run_in_stock(output, reference, sample.inputs)
    assert run.exit_status == 0, run.log
    np.testing.assert_allclose(run.outputs["y"], sample.outputs["y"], rtol=1e-6)


def test_an_output_whose_shape_stock_shows_as_open_stays_on_the_cpu(
    reference: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    sample, output = dynamic(tmp_path, has_rank=True), tmp_path / "out"
    bounds = {"LITERT_NPU_OPTIONS": "shape_bounds=x:8x4"}
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", sample, output, bounds)
    assert done.returncode == 0, said(done)
    assert (
        "leaves 1 op (Softsign) on the CPU: the shape of an output is known only at run time"
        in said(done)
    )


def test_weights_that_two_partitions_share_are_in_stock_s_file_once(
    reference: Path, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    numbers = np.arange(1 << 18, dtype=np.float32)
    weights = np.random.default_rng(1).permutation(numbers).reshape(512, 512) / (1 << 18)
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 512))
    w = b.constant("w", weights)
    y = b.custom("Project", [x, w], [("y", "float32", (2, 512))])
    again = b.constant("again", w.buffer, "float32", weights.shape)
    a = b.op("ABS", [y], [("a", "float32", (2, 512))])
    b.output(b.custom("Project", [a, again], [("z", "float32", (2, 512))]))
    b.signature("main")
    write_model(b.build(), tmp_path / "model.tflite")
    kernel = EXAMPLES / "09_two_signatures" / "Project.cl"
    inputs = {"x": np.linspace(-1, 1, 1024, dtype=np.float32).reshape(2, 512)}
    sample = Sample(tmp_path / "model.tflite", {"Project": kernel}, inputs, {}, ["ABS"])
    output = tmp_path / "out"
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", sample, output)
    assert done.returncode == 0, said(done)
    assert output.read_bytes().count(weights.tobytes()) == 1
    assert output.stat().st_size < weights.nbytes + (64 << 10)
    run = run_in_stock(output, reference, inputs)
    assert run.exit_status == 0, run.log
    expected = np.abs(inputs["x"] @ weights.T) @ weights.T
    np.testing.assert_allclose(run.outputs["z"], expected, rtol=1e-4)


def test_a_module_of_stock_s_file_is_the_plugin_s_own_behind_the_container(
    reference: Path, mixed: Sample, tmp_path: Path, stock_apply_plugin: StockTool
) -> None:
    output = tmp_path / "out"
    done = compile_in_stock(stock_apply_plugin, reference, "Reference", mixed, output)
    assert done.returncode == 0, said(done)
    with read_model(output) as model:
        (module,) = {bytes(module.blob) for module in model.byte_code}
    byte_code, assets = unpack(Blob(module))
    assert byte_code.size < len(module)
    assert [asset.name for asset in assets] == [
        "ChannelAffine",
        "ChannelAffine/common.cl",
        "ChannelAffine/ChannelAffine.cl",
        "Softsign",
        "RowNorm",
        "RowNorm/RowNorm.cl",
    ]
