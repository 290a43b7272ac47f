"""The memory plan of a real network's whole graph is at most 1.05 times its lower bound, made within a second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Row, seconds
from examples.downloads import networks
from litert.model.graph import Tensor
from litert.model.reader import read_model
from vendor_reference.compiler.memory_planner import LiveRange, plan_memory

_MOST = 1.05


def measure() -> Sequence[Row]:
    """Plans each network's main graph."""
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


def live_ranges_of(path: Path) -> list[LiveRange]:
    """The tensors of a model's main graph that are no constants; inputs and outputs among them."""
    subgraph = read_model(path).subgraphs[0]
    first: dict[Tensor, int] = dict.fromkeys(subgraph.inputs, 0)
    last = dict(first)
    for step, op in enumerate(subgraph.ops):
        first.update((tensor, step) for tensor in op.outputs)
        used = [t for t in (*op.inputs, *op.outputs) if t is not None and t in first]
        last.update((tensor, step) for tensor in used)
    last.update((tensor, len(subgraph.ops)) for tensor in subgraph.outputs)
    return [LiveRange(t.type.size_bytes, at, last[t]) for t, at in first.items()]
