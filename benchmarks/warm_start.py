"""If the program cache contains its kernel, a model is loaded and run at least 5 times as fast as otherwise."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from benchmarks.commands import compiled
from benchmarks.first_run import ASSET, OP, first_run_s
from benchmarks.harness import BUILD, Row, compare
from corpus.downloads import networks

_RUNS = 5


def measure() -> Sequence[Row]:
    """Loads and runs the model in turn with a cache that contains the kernel and with an empty cache."""
    npu = compiled(OP, ASSET, networks() / "selfie_segmentation.tflite")
    with tempfile.TemporaryDirectory(dir=BUILD) as warm:
        first_run_s(npu, warm)

        def first() -> float:
            with tempfile.TemporaryDirectory(dir=BUILD) as cold:
                return first_run_s(npu, cold)

        times = compare(lambda: first_run_s(npu, warm), first, _RUNS)
    return [times.row("load and first run with a warm cache, compared with an empty cache", 0.2)]
