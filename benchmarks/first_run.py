"""Measures a load and the first run of a network with a custom op, for two benchmarks.

The time is from opening the file to the end of the run, in a new process that has already loaded OpenCL and
imported the modules that any model needs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.commands import KERNELS
from benchmarks.harness import run_checked

OP = "Convolution2DTransposeBias"
ASSET = KERNELS / f"{OP}.json"


def first_run_s(model: Path, kernels: str = "", compiled: str = "") -> float:
    """Returns the time of a load and a first run, in seconds.

    Args:
      model: Path of the network, raw or compiled.
      kernels: Folder of the program cache; "" for the user's folder.
      compiled: Folder of the cache for models that are compiled at load; "" for no cache.
    """
    environment = {"LITERT_NPU_CACHE_DIR": kernels} if kernels else {}
    child = [sys.executable, "-m", "benchmarks.first_run", str(model), compiled]
    return float(json.loads(run_checked(child, environment).output))


def _first_run_here(model: str, compiled: str) -> float:
    import ai_edge_litert.interpreter  # noqa: F401
    import numpy as np

    from litert import CompiledModel, CustomOpInfo, Environment, HardwareAccelerator, Options
    from vendor_reference.dispatch import open_device

    open_device()
    options = Options(
        HardwareAccelerator.NPU | HardwareAccelerator.CPU,
        custom_op_infos=[CustomOpInfo(OP, str(ASSET))],
        soc_manufacturer="Reference",
    )
    environment = Environment.create(compiler_cache_dir=compiled) if compiled else None
    begin = time.perf_counter()
    with CompiledModel.from_file(model, environment=environment, options=options) as loaded:
        loaded.run({"input_1": np.zeros((1, 256, 256, 3), np.float32)})
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(_first_run_here(*sys.argv[1:])))
