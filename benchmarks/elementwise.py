"""An element-wise op on 64 MB has at least 0.95 times the bare kernel's speed: no input or output is copied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import litert
from benchmarks.commands import compiled
from benchmarks.harness import BUILD, Row, alternate
from benchmarks.loaded import bare_kernel, load
from benchmarks.models import one_custom_op

_KERNEL = """
__kernel void Scale(const __global float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = 2.0f * x[i] + 1.0f;
}
"""
_ELEMENTS = 64_000_000 // 4
_RUNS = 50


def measure() -> Sequence[Row]:
    """Runs the op and the bare kernel in turn."""
    asset = BUILD / "Scale.cl"
    asset.write_text(_KERNEL)
    model = compiled("Scale", asset, one_custom_op("Scale", _ELEMENTS))
    inputs = np.random.default_rng(0).random(_ELEMENTS, np.float32)
    ours, read_ours = load(litert, model, "NPU", 1, inputs)
    peer, read_peer = bare_kernel(_KERNEL, "Scale", inputs)
    times = alternate(ours, peer, _RUNS)
    assert (read_ours() == read_peer()).all()
    return [times.row("element-wise op on 64 MB, compared with the bare kernel", 1 / 0.95)]
