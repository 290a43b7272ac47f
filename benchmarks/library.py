"""Measures how `--reference_ops=all` changes the time of a network, and how fast single kernels are.

The network is selfie segmentation; its peer is the network with only the custom op on the NPU. The single kernels
work on 64 MB: LOGISTIC, an ADD with broadcasting, and ADD, LOGISTIC and MUL fused into one kernel. Their peer is
stock LiteRT's XNNPACK with the same number of threads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.commands import KERNELS, compile_with
from benchmarks.harness import BUILD, Comparison, Row, alternate, run_checked
from benchmarks.models import written
from corpus.downloads import networks
from litert.model.builder import ModelBuilder

_OP = "Convolution2DTransposeBias"
_ALL = "--reference_ops=all"
_THREADS = 2
_SHAPE = (1, 1000, 1000, 16)


def measure() -> Sequence[Row]:
    """Runs both sides of each comparison in turn, in one child process."""
    network = networks() / "selfie_segmentation.tflite"
    asset = KERNELS / f"{_OP}.json"
    alone, all_ops = BUILD / "library_without.tflite", BUILD / "library_with.tflite"
    run_checked(compile_with(_OP, asset, network, alone))
    run_checked([*compile_with(_OP, asset, network, all_ops), _ALL])
    cost = _run(
        "selfie segmentation with --reference_ops=all, compared with the flag's default",
        all_ops,
        alone,
        "NPU",
        0,
    )
    rows = [replace(cost, limit="no limit", holds=True)]
    for name, limit in (("LOGISTIC", 2.5), ("ADD", 1.5), ("ADD, LOGISTIC, MUL", 1.0)):
        model = _chain(name.split(", "))
        output = BUILD / f"{model.stem}_npu.tflite"
        run_checked([*compile_with(_OP, asset, model, output), _ALL])
        rows.append(
            _run(f"library's {name} on 64 MB, compared with stock's", output, model, "CPU", limit)
        )
    return rows


def _chain(names: Sequence[str]) -> Path:
    """Builds a chain of ops: ADD adds a constant; MUL multiplies the previous op's output by that op's input."""
    builder = ModelBuilder()
    made = [builder.input("x", "float32", _SHAPE)]
    for index, name in enumerate(names):
        inputs = made[-1:]
        if name == "ADD":
            inputs.append(builder.constant("c", [0.5] * _SHAPE[-1], "float32"))
        elif name == "MUL":
            inputs.append(made[-2])
        made.append(builder.op(name, inputs, [(f"y{index}", "float32", _SHAPE)]))
    builder.output(made[-1])
    return written(f"library_{'_'.join(names)}", builder.build())


def _run(claim: str, ours: Path, peer: Path, accelerator: str, limit: float) -> Row:
    arguments = [str(ours), str(peer), accelerator]
    child = run_checked([sys.executable, "-m", "benchmarks.library", *arguments])
    return Comparison(*json.loads(child.output)).row(claim, limit)


def _measure_here(ours: Path, peer: Path, accelerator: str) -> Comparison:
    from benchmarks.loaded import limit_driver_threads, load

    limit_driver_threads(_THREADS)
    import ai_edge_litert.compiled_model as stock
    import numpy as np

    import litert

    is_network = accelerator == "NPU"
    shape = (1, 256, 256, 3) if is_network else _SHAPE
    inputs = np.random.default_rng(0).random(shape, np.float32)
    run_ours, read_ours = load(litert, ours, "NPU", _THREADS, inputs)
    package = litert if is_network else stock
    run_peer, read_peer = load(package, peer, accelerator, _THREADS, inputs)
    times = alternate(run_ours, run_peer, 100, warm_up=10)
    assert np.abs(read_ours() - read_peer()).max() <= 1e-5
    return times


if __name__ == "__main__":
    comparison = _measure_here(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    print(json.dumps([comparison.ours, comparison.peer]))
