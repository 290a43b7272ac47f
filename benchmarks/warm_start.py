"""A model whose kernel is in the program cache is loaded and run at least 5 times as fast as the first time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from benchmarks.commands import compiled
from benchmarks.first_run import ASSET, OP, first_run_s
from benchmarks.harness import BUILD, Row, compare
from corpus.downloads import networks

_RUNS = 5


def measure() -> Sequence[Row]:
    """Starts with a cache that has the kernel and with an empty cache, in turn."""
    npu = compiled(OP, ASSET, networks() / "selfie_segmentation.tflite")
    with tempfile.TemporaryDirectory(dir=BUILD) as warm:
        first_run_s(npu, warm)

        def first() -> float:
            with tempfile.TemporaryDirectory(dir=BUILD) as cold:
                return first_run_s(npu, cold)

        times = compare(lambda: first_run_s(npu, warm), first, _RUNS)
    return [times.row("warm start to the first, load and first run", 0.2)]
