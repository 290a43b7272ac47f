"""A model whose kernel is in the program cache is loaded and run at least 5 times as fast as the first time.

From opening the file to the end of the first run, each time in a new process that has loaded OpenCL.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import KERNELS, compiled
from benchmarks.harness import BUILD, Row, compare, run_child
from corpus.downloads import networks

_OP = "Convolution2DTransposeBias"
_RUNS = 5


def measure() -> Sequence[Row]:
    """Alternates a cache that has the kernel with an empty one."""
    BUILD.mkdir(parents=True, exist_ok=True)
    npu = compiled(_OP, KERNELS / f"{_OP}.json", networks() / "selfie_segmentation.tflite")
    with tempfile.TemporaryDirectory(dir=BUILD) as warm:
        _start(npu, warm)

        def first() -> float:
            with tempfile.TemporaryDirectory(dir=BUILD) as cold:
                return _start(npu, cold)

        times = compare(lambda: _start(npu, warm), first, _RUNS)
    return [times.row("warm start to the first, load and first run", 0.2)]


def _start(npu: Path, cache: str) -> float:
    module = [sys.executable, "-m", "benchmarks.warm_start", str(npu)]
    child = run_child(module, environment={"LITERT_NPU_CACHE_DIR": cache})
    if child.status != 0:
        raise RuntimeError(child.errors)
    return float(json.loads(child.output))


def _start_here(npu: str) -> float:
    import ai_edge_litert.interpreter  # noqa: F401  # what a second model would find imported
    import numpy as np

    from litert import CompiledModel
    from vendor_reference.dispatch import open_device

    open_device()
    begin = time.perf_counter()
    with CompiledModel.from_file(npu) as model:
        model.run({"input_1": np.zeros((1, 256, 256, 3), np.float32)})
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(_start_here(sys.argv[1])))
