"""Constants that are stored small, and dequantized in each run, are stored as the real numbers that they are."""

from __future__ import annotations

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldDequantize(Transformation):
    """Makes the result of a constant's DEQUANTIZE a constant, within `--fold_limit`.

    Weights of float16, and integers with scales. Where a model is cut between such an op and its reader, XNNPACK
    would refuse the whole part that it is in, since there it is a result. What ops read that are likely to be cut
    off, custom ops, comes first if not all can be folded.
    """

    def find_and_replace_pattern(self, graph: Graph) -> int:
        nodes = graph.get_op_nodes(op="DEQUANTIZE")
        nodes.sort(
            key=lambda node: any(end.node.is_custom for end in node.out_port(0).get_destinations())
        )
        return fold(graph, nodes, lambda op: True)
