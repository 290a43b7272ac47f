"""Stores sparse constants as dense constants, so that no DENSIFY op expands them in each run."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldDensify(Transformation):
    """Replaces the DENSIFY of a sparse constant by a dense constant, if `--fold_limit` allows the larger file.

    Use this transformation for NPUs that need weights as constants, and for kernels that do not exploit sparsity.
    XNNPACK looks for zeros in weights that come from a DENSIFY, and can then use faster sparse kernels.
    """

    enabled = False  # the file grows, and sparse kernels are not chosen any more

    def run_before(self) -> Sequence[str]:
        return ["fold_dequantize"]

    def find_and_replace_pattern(self, graph: Graph) -> int:
        return fold(graph, graph.get_op_nodes(op="DENSIFY"), lambda op: True)
