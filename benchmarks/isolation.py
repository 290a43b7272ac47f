"""With the device in a child process, a run of a small op takes at most 60 us longer, and a network at most 10%.

Both sides are a `litert.CompiledModel` on buffers that it made itself, and run in turn. The time of a load
includes the start of the child process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

import litert
from benchmarks.commands import APPLY_PLUGIN, KERNELS, compiled
from benchmarks.harness import BUILD, Comparison, Row, alternate, compare, run_checked, seconds
from benchmarks.loaded import load
from benchmarks.models import one_custom_op
from corpus.downloads import networks
from litert.model.reader import read_model

_KERNEL = "__kernel void Stub(const __global float* x, __global float* y) { y[0] = x[0]; }\n"
_OP = "Convolution2DTransposeBias"
_LIMIT_S = 60e-6
_MOST_RATIO = 1.1
_RUNS = 3000
_NETWORK_RUNS = 200
_LOADS = 15


def measure() -> Sequence[Row]:
    """Measures runs and loads, in turn with the device in a child process and in this process."""
    asset = BUILD / "Stub.cl"
    asset.write_text(_KERNEL)
    stub = compiled("Stub", asset, one_custom_op("Stub", 1))
    times = _alternate(stub, _RUNS)
    rows = [_more_row("a run of a stub kernel, isolated", times, _LIMIT_S)]
    selfie = compiled(_OP, KERNELS / f"{_OP}.json", networks() / "selfie_segmentation.tflite")
    for name, path in (("selfie segmentation", selfie), ("face detection", _whole_network())):
        times = _alternate(path, _NETWORK_RUNS)
        rows.append(times.row(f"{name}, isolated", _MOST_RATIO))
    loads = compare(lambda: _load_s(selfie, True), lambda: _load_s(selfie, False), _LOADS)
    rows.append(_more_row("a load of selfie segmentation, isolated", loads, 0.5))
    return rows


def _whole_network() -> Path:
    path = BUILD / "face_detection_all_npu.tflite"
    network = networks() / "face_detection_short_range.tflite"
    run_checked([APPLY_PLUGIN, "--quiet", "--reference_ops=all", network, path])
    return path


def _alternate(path: Path, runs: int) -> Comparison:
    return alternate(_runner(path, True), _runner(path, False), runs, warm_up=runs // 10)


def _runner(path: Path, isolated: bool) -> Callable[[], object]:
    with read_model(path) as model:
        shape = model.subgraphs[0].inputs[0].type.shape
    inputs = np.random.default_rng(0).random(shape, dtype=np.float32)
    run, _ = load(litert, path, "NPU", 1, inputs, isolated=isolated)
    return run


def _load_s(path: Path, isolated: bool) -> float:
    both = litert.HardwareAccelerator.NPU | litert.HardwareAccelerator.CPU
    start = time.perf_counter()
    model = litert.CompiledModel.from_file(
        str(path), options=litert.Options(both, isolated=isolated)
    )
    end = time.perf_counter()
    model.close()
    return end - start


def _more_row(claim: str, times: Comparison, limit_s: float) -> Row:
    more = median(a - b for a, b in zip(times.ours, times.peer, strict=True))
    return Row(
        f"{claim}: {seconds(abs(more))} {'more' if more >= 0 else 'less'}",
        seconds(median(times.ours)),
        seconds(median(times.peer)),
        times.spread(),
        f"<= {seconds(limit_s)} more",
        more <= limit_s,
    )
