"""Stores dequantized constants in the model, so that no DEQUANTIZE op converts them in each run."""

from __future__ import annotations

from compiler_plugin.transformations.folding import fold
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.transformation import Transformation


class FoldDequantize(Transformation):
    """Replaces the DEQUANTIZE of a constant by a float32 constant, if `--fold_limit` allows the larger file.

    The input of such a DEQUANTIZE contains float16 weights, or integers with scales. If a partition boundary
    separates a DEQUANTIZE from the op that reads it, the op's weights are not constant, and XNNPACK refuses the
    whole part of the model that contains the op. If the limit does not allow folding all constants, inputs of
    custom ops are folded first, because partition boundaries are likely at custom ops.
    """

    def find_and_replace_pattern(self, graph: Graph) -> int:
        nodes = graph.get_op_nodes(op="DEQUANTIZE")
        nodes.sort(
            key=lambda node: any(end.node.is_custom for end in node.out_port(0).get_destinations())
        )
        return fold(graph, nodes, lambda op: True)
