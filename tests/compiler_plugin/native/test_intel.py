"""A vendor's real plugin, as it is in the wheel, takes the same ops here as in stock's `apply_plugin_main`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from compiler_plugin.commands import partition_model
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions
from litert.model.flexbuffer import read_flexbuffer
from litert.model.reader import read_model

Stock = Callable[..., subprocess.CompletedProcess[str]]
Partition = Sequence[tuple[str, Sequence[str]]]

_NETWORKS = (
    "face_landmark_with_attention",
    "hand_recrop",
    "pose_detection",
    "selfie_segmentation",
)  # all fourteen are in `benchmarks/native_plugin.py`
_FLAGS = {"intel_openvino_graph_backends": "cpu"}


@pytest.fixture(scope="session")
def intel() -> Path:
    """The folder of Intel's plugin."""
    package = pytest.importorskip("ai_edge_litert")
    pytest.importorskip("openvino", reason="no openvino, which Intel's plugin is linked with")
    folder = Path(package.__file__).parent / "vendors" / "intel_openvino" / "compiler"
    if not list(folder.glob("libLiteRtCompilerPlugin*.so")):
        pytest.skip("this ai-edge-litert has no plugin of Intel's")
    return folder


def _options(intel: Path) -> ApplyOptions:
    compiler = CompilerOptions(vendor_options=_FLAGS)
    return ApplyOptions("IntelOpenVINO", "PTL", [str(intel)], compiler=compiler)


def _run_stock(stock: Stock, intel: Path, cmd: str, model: Path, output: Path) -> None:
    done = stock(
        f"--cmd={cmd}",
        f"--model={model}",
        f"--o={output}",
        "--soc_manufacturer=IntelOpenVINO",
        "--soc_model=PTL",
        f"--libs={intel}",
        *(f"--{name}={value}" for name, value in _FLAGS.items()),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _partitions(path: Path, num_subgraphs: int) -> list[Partition]:
    """The ops of each partition, with the names of what they write, in their order."""
    with read_model(path) as model:
        return [
            [(op.name, [tensor.name for tensor in op.outputs]) for op in subgraph.ops]
            for subgraph in model.subgraphs[num_subgraphs:]
        ]


def _calls(path: Path) -> list[tuple[Sequence[str], Sequence[str], int]]:
    """Inputs and outputs of each NPU call, and the size of its byte code."""
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
    assert min(counts) >= 1 and max(counts) > 10  # networks that are taken whole, and in pieces


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
