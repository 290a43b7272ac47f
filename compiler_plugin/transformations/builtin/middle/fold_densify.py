"""Sparse constants, which DENSIFY makes dense in each run, are stored with their zeros."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldDensify(Transformation):
    """Makes the result of a sparse constant's DENSIFY a constant, within `--fold_limit`.

    For NPUs that want weights as constants, and kernels that do not make use of zeros. XNNPACK's may: they know by
    DENSIFY that it pays to look for them.
    """

    enabled = False  # the file grows, and sparse kernels are not chosen any more

    def run_before(self) -> Sequence[str]:
        return ["fold_dequantize"]

    def find_and_replace_pattern(self, graph: Graph) -> int:
        return fold(graph, graph.get_op_nodes(op="DENSIFY"), lambda op: True)
