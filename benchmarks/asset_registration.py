"""Registering an asset of 1 GiB takes less than 1 ms, because the host maps the asset and does not read it.

The benchmark loads a model with this asset, and in turn the same model with an asset of one byte. The vendor is
Null, whose `register_asset` only stores the buffer. The peer is the time of reading the whole asset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import litert
from benchmarks.commands import APPLY_PLUGIN
from benchmarks.harness import BUILD, Row, alternate, at_most, run_checked, seconds
from benchmarks.models import GIB, noise, one_custom_op

_RUNS = 30


def measure() -> Sequence[Row]:
    """Loads both models in turn."""
    large, small = _compiled(GIB), _compiled(1)
    times = alternate(_load(large), _load(small), _RUNS)
    more = median(a - b for a, b in zip(times.ours, times.peer, strict=True))
    read = alternate(noise(GIB).read_bytes, lambda: None, runs=3, warm_up=1)
    large.unlink()
    claim = "time that an asset of 1 GiB adds to a load (peer: reading the asset)"
    return [at_most(claim, max(more, 0.0), 1e-3, seconds, seconds(median(read.ours)))]


def _compiled(asset_size: int) -> Path:
    output = BUILD / f"asset_{asset_size}.tflite"
    info = f"--npu_custom_op_info=Copy,{noise(asset_size)}"
    model = one_custom_op("Copy", 8)
    run_checked([APPLY_PLUGIN, "--soc_manufacturer=Null", info, model, output])
    return output


def _load(path: Path) -> Callable[[], None]:
    accelerators = litert.HardwareAccelerator.NPU | litert.HardwareAccelerator.CPU
    return lambda: litert.CompiledModel.from_file(str(path), accelerators).close()
