"""Stores sparse constants, which DENSIFY expands in each run, as dense constants."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldDensify(Transformation):
    """Replaces the DENSIFY of a sparse constant by a dense constant, within `--fold_limit`.

    Use this transformation for NPUs that need weights as constants, and for kernels that do not exploit sparsity.
    The kernels of XNNPACK may exploit sparsity: a DENSIFY tells them to look for zeros.
    """

    enabled = False  # the file grows, and sparse kernels are not chosen any more

    def run_before(self) -> Sequence[str]:
        return ["fold_dequantize"]

    def find_and_replace_pattern(self, graph: Graph) -> int:
        return fold(graph, graph.get_op_nodes(op="DENSIFY"), lambda op: True)
