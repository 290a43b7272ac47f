"""Replaces an op that depends only on constants by a constant."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldConstants(Transformation):
    """Replaces an op that depends only on constants by its result, if `--fold_limit` allows the larger file.

    Stock LiteRT computes the result. Ops that compute values from the shape of an input are not folded, so that
    the model can be resized; `--static_shape` folds these ops too. `fold_dequantize` folds DEQUANTIZE ops, and
    `fold_densify` folds DENSIFY ops.
    """

    def run_after(self) -> Sequence[str]:
        return ["fold_dequantize"]

    def find_and_replace_pattern(self, graph: Graph) -> int:
        return fold(graph, graph.nodes, lambda op: op.name not in ("DENSIFY", "DEQUANTIZE"))
