"""Stores constants that DEQUANTIZE expands in each run as real numbers."""

from __future__ import annotations

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldDequantize(Transformation):
    """Replaces the DEQUANTIZE of a constant by a constant, within `--fold_limit`.

    The constants are weights of float16, and integers with scales. If a model is cut between such a DEQUANTIZE and
    its reader, XNNPACK would refuse the whole part with the reader, because the weights are then not constant. If
    not all constants can be folded, inputs of custom ops come first, because custom ops are likely to be cut off.
    """

    def find_and_replace_pattern(self, graph: Graph) -> int:
        nodes = graph.get_op_nodes(op="DEQUANTIZE")
        nodes.sort(
            key=lambda node: any(end.node.is_custom for end in node.out_port(0).get_destinations())
        )
        return fold(graph, nodes, lambda op: True)
