"""A raw model that was compiled at a load before is loaded and run in at most 1.5 times a compiled file's time.

The kernel is in the program cache.
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
    """Loads the raw model, which the cache has, and the compiled file in turn."""
    raw = networks() / "selfie_segmentation.tflite"
    npu = compiled(OP, ASSET, raw)
    with tempfile.TemporaryDirectory(dir=BUILD) as cache:

        def load_raw() -> float:
            return first_run_s(raw, compiled=cache)

        cold_s = load_raw()
        times = compare(load_raw, lambda: first_run_s(npu, compiled=cache), _RUNS)
    claim = f"load and first run of a raw model that was compiled before (then: {cold_s:.1f} s)"
    return [times.row(claim, 1.5)]
