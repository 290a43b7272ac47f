"""A raw model that was compiled at a load before is loaded and run in at most 1.5 times a compiled file's time.

From opening the file to the end of the first run, each time in a new process that has loaded OpenCL; the kernel
is in the program cache.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.commands import KERNELS, compiled
from benchmarks.harness import BUILD, Row, compare, run_checked
from corpus.downloads import networks

_OP = "Convolution2DTransposeBias"
_ASSET = KERNELS / f"{_OP}.json"
_RUNS = 7


def measure() -> Sequence[Row]:
    """Alternates the raw model, with a cache that has it, with the compiled file."""
    BUILD.mkdir(parents=True, exist_ok=True)
    raw = networks() / "selfie_segmentation.tflite"
    npu = compiled(_OP, _ASSET, raw)
    with tempfile.TemporaryDirectory(dir=BUILD) as cache:
        cold_s = _start(str(raw), cache)
        times = compare(lambda: _start(str(raw), cache), lambda: _start(str(npu), cache), _RUNS)
    claim = f"load and first run of a raw model that was compiled before (then: {cold_s:.1f} s)"
    return [times.row(claim, 1.5)]


def _start(model: str, cache: str) -> float:
    child = run_checked([sys.executable, "-m", "benchmarks.compile_at_load", model, cache])
    return float(json.loads(child.output))


def _start_here(model: str, cache: str) -> float:
    import ai_edge_litert.interpreter  # noqa: F401  # what a second model would find imported
    import numpy as np

    from litert import CompiledModel, CustomOpInfo, Environment, HardwareAccelerator, Options
    from vendor_reference.dispatch import open_device

    open_device()
    options = Options(
        HardwareAccelerator.NPU | HardwareAccelerator.CPU,
        custom_op_infos=[CustomOpInfo(_OP, str(_ASSET))],
        soc_manufacturer="Reference",
    )
    environment = Environment.create(compiler_cache_dir=cache)
    begin = time.perf_counter()
    with CompiledModel.from_file(model, environment=environment, options=options) as loaded:
        loaded.run({"input_1": np.zeros((1, 256, 256, 3), np.float32)})
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(_start_here(*sys.argv[1:])))
