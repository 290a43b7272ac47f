"""Ops that depend on constants alone become constants."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldConstants(Transformation):
    """Computes ops that depend on constants alone, as stock's kernels do, within `--fold_limit`.

    What is computed from the shape of an input stays, so that the model can be resized; `--static_shape` folds it
    too. DEQUANTIZE is left to `fold_dequantize`, and DENSIFY to `fold_densify`.
    """

    def run_after(self) -> Sequence[str]:
        return ["fold_dequantize"]

    def find_and_replace_pattern(self, graph: Graph) -> int:
        return fold(graph, graph.nodes, lambda op: op.name not in ("DENSIFY", "DEQUANTIZE"))
