"""The memory plan of a real network is at most 1.05 times the lower bound, and planning takes less than 1 s."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.harness import Row, seconds
from corpus.downloads import networks
from corpus.live_ranges import live_ranges_of
from vendor_reference.compiler.memory_planner import plan_memory

_MOST = 1.05


def measure() -> Sequence[Row]:
    """Plans the memory of each network's main subgraph."""
    rows = []
    for path in sorted(networks().glob("*.tflite")):
        buffers = live_ranges_of(path)
        begin = time.perf_counter()
        plan = plan_memory(buffers)
        duration = time.perf_counter() - begin
        ratio = plan.size / max(plan.lower_bound, 1)
        rows.append(
            Row(
                f"memory plan of {path.stem}, {len(buffers)} tensors",
                f"{plan.size / 1e6:.2f} MB, {seconds(duration)}",
                f"bound {plan.lower_bound / 1e6:.2f} MB",
                f"{ratio:.3f}",
                f"ratio <= {_MOST}, 1 s",
                ratio <= _MOST and duration < 1,
            )
        )
    return rows
