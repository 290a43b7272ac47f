"""A raw model that an earlier load compiled loads and runs in at most 1.5 times the time of a compiled file.

In both cases, the program cache contains the kernel.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from benchmarks.commands import compiled
from benchmarks.first_run import ASSET, OP, first_run_s
from benchmarks.harness import BUILD, Row, compare
from corpus.downloads import networks

_RUNS = 7


def measure() -> Sequence[Row]:
    """Loads in turn the raw model, whose compiled form is in the cache, and the compiled file."""
    raw = networks() / "selfie_segmentation.tflite"
    npu = compiled(OP, ASSET, raw)
    with tempfile.TemporaryDirectory(dir=BUILD) as cache:

        def load_raw() -> float:
            return first_run_s(raw, compiled=cache)

        cold_s = load_raw()
        times = compare(load_raw, lambda: first_run_s(npu, compiled=cache), _RUNS)
    claim = f"load and first run of a raw model that an earlier load compiled (the earlier load: {cold_s:.1f} s)"
    return [times.row(claim, 1.5)]
