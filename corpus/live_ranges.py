"""Computes when each tensor of a model is needed, which is the input for planning the memory of its graph."""

from __future__ import annotations

from pathlib import Path

from litert.model.graph import Tensor
from litert.model.reader import read_model
from vendor_reference.compiler.memory_planner import LiveRange


def live_ranges_of(path: Path) -> list[LiveRange]:
    """Returns the live ranges of the tensors in a model's main subgraph, without constants."""
    subgraph = read_model(path).subgraphs[0]
    first: dict[Tensor, int] = dict.fromkeys(subgraph.inputs, 0)
    last = dict(first)
    for step, op in enumerate(subgraph.ops):
        first.update((tensor, step) for tensor in op.outputs)
        used = [t for t in (*op.inputs, *op.outputs) if t is not None and t in first]
        last.update((tensor, step) for tensor in used)
    last.update((tensor, len(subgraph.ops)) for tensor in subgraph.outputs)
    return [LiveRange(t.type.size_bytes, at, last[t]) for t, at in first.items()]
