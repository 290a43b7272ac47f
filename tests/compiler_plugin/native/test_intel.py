"""Tests that Intel's plugin from the wheel takes the same ops here as in stock's `apply_plugin_main`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from compiler_plugin.commands import partition_model
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions
from litert.model.flexbuffer import read_flexbuffer
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.compiler_plugin.composite_models import MODELS, rms_norm, within
from tests.stock_litert import run_in_ours

Stock = Callable[..., subprocess.CompletedProcess[str]]
Partition = Sequence[tuple[str, Sequence[str]]]

_NETWORKS = (
    "face_landmark_with_attention",
    "hand_recrop",
    "pose_detection",
    "selfie_segmentation",
)  # `benchmarks/native_plugin.py` runs all fourteen networks
_FLAGS = {"intel_openvino_graph_backends": "cpu"}


def _options(intel: Path) -> ApplyOptions:
    compiler = CompilerOptions(vendor_options=_FLAGS)
    return ApplyOptions("IntelOpenVINO", "PTL", [str(intel / "compiler")], compiler=compiler)


def _run_stock(stock: Stock, intel: Path, cmd: str, model: Path, output: Path) -> None:
    done = stock(
        f"--cmd={cmd}",
        f"--model={model}",
        f"--o={output}",
        "--soc_manufacturer=IntelOpenVINO",
        "--soc_model=PTL",
        f"--libs={intel / 'compiler'}",
        *(f"--{name}={value}" for name, value in _FLAGS.items()),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _partitions(path: Path, num_subgraphs: int) -> list[Partition]:
    """Returns, for each partition, its ops with the names of their outputs, in order."""
    with read_model(path) as model:
        return [
            [(op.name, [tensor.name for tensor in op.outputs]) for op in subgraph.ops]
            for subgraph in model.subgraphs[num_subgraphs:]
        ]


def _calls(path: Path) -> list[tuple[Sequence[str], Sequence[str], int]]:
    """Returns the inputs, outputs and byte code size of each NPU call."""
    calls: list[tuple[Sequence[str], Sequence[str], int]] = []
    with read_model(path) as model:
        for op in model.ops():
            if op.name == "DISPATCH_OP" and op.custom_options is not None:
                options = read_flexbuffer(op.custom_options.view)
                assert isinstance(options, Mapping) and isinstance(options["bytecode_size"], int)
                inputs = [tensor.name for tensor in op.inputs if tensor is not None]
                outputs = [tensor.name for tensor in op.outputs]
                calls.append((inputs, outputs, options["bytecode_size"]))
    return calls


def test_partitions_of_real_networks_are_those_of_stock(
    networks: Path, intel: Path, stock_apply_plugin: Stock, tmp_path: Path
) -> None:
    stock, ours = tmp_path / "stock.tflite", tmp_path / "ours.tflite"
    counts: list[int] = []
    for name in _NETWORKS:
        network = networks / f"{name}.tflite"
        with read_model(network) as model:
            before = len(model.subgraphs)
        _run_stock(stock_apply_plugin, intel, "partition", network, stock)
        partition_model(network, ours, _options(intel))
        assert _partitions(ours, before) == _partitions(stock, before), network.name
        counts.append(len(_partitions(ours, before)))
    assert min(counts) >= 1 and max(counts) > 10  # some networks are taken whole, others in parts


def _kinds(path: Path) -> list[list[str]]:
    """Returns the op names of each partition."""
    with read_model(path) as model:
        calls = sum(op.name == "DISPATCH_OP" for op in model.ops())
        partitions = model.subgraphs[len(model.subgraphs) - calls :]
        return [[op.name for op in partition.ops] for partition in partitions]


@pytest.mark.parametrize("case", MODELS)
def test_composites_are_taken_whole_or_in_parts_as_in_stock(
    case: str, intel: Path, stock_apply_plugin: Stock, tmp_path: Path
) -> None:
    source, stock, ours = (tmp_path / f"{name}.tflite" for name in ("model", "stock", "ours"))
    write_model(MODELS[case](), source)
    _run_stock(stock_apply_plugin, intel, "partition", source, stock)
    report = partition_model(source, ours, _options(intel))
    # Stock puts composites marked for the NPU before other calls, but orders byte code differently.
    is_ordered = case != "for the NPU"
    found, expected = _kinds(ours), _kinds(stock)
    assert (found == expected) if is_ordered else (sorted(found) == sorted(expected))
    assert report.composites


def test_a_composite_s_ops_compute_the_same_on_the_npu(intel: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "model.tflite", tmp_path / "out.tflite"
    write_model(within("acme.block", "odml.rms_norm", rms_norm), source)
    report = apply_plugin(source, output, _options(intel))
    assert [str(item) for item in report.composites] == [
        "decomposed, 3 of 3 ops on the NPU",
        "not decomposed, on the NPU",
    ]
    x = np.random.default_rng(4).normal(size=(1, 8)).astype(np.float32)
    run = run_in_ours(output, intel / "dispatch", {"x": x})
    assert run.exit_status == 0, run.log
    interpreter = Interpreter(model_path=str(source))
    expected = interpreter.get_signature_runner("serve")(x=x)
    np.testing.assert_allclose(run.outputs["y"], expected["y"], rtol=1e-5)


@pytest.mark.parametrize("name", ["hand_recrop", "selfie_segmentation"])
def test_byte_code_is_as_large_as_in_stock(
    networks: Path, intel: Path, stock_apply_plugin: Stock, tmp_path: Path, name: str
) -> None:
    network = networks / f"{name}.tflite"
    _run_stock(stock_apply_plugin, intel, "apply", network, tmp_path / "stock.tflite")
    apply_plugin(network, tmp_path / "ours.tflite", _options(intel))
    ours, stock = _calls(tmp_path / "ours.tflite"), _calls(tmp_path / "stock.tflite")
    assert ours == stock
    assert all(size > 1000 for _, _, size in ours)
