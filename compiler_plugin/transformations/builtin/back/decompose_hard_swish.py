"""Decomposes HARD_SWISH into ADD with fused RELU6 and two MUL, for NPUs that do not support HARD_SWISH."""

from __future__ import annotations

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.replacement import OpReplacement
from litert.core.element_type import ElementType


class DecomposeHardSwish(OpReplacement):
    """Decomposes HARD_SWISH into x * (relu6(x + 3) / 6), for NPUs that support only basic ops."""

    enabled = False  # slower if the runtime supports the op
    op = "HARD_SWISH"

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        """Returns the last MUL of the decomposition.

        Quantized HARD_SWISH ops are not decomposed, because they round once, whereas each op of the decomposition
        would round.
        """
        x = node.in_port(0).get_source()
        if x is None or x.get_data_type() is not ElementType.FLOAT32:
            return None
        options = {"fused_activation_function": "RELU6"}
        gate = graph.create_op("ADD", [x, 3.0], options, name=f"{node.name}/relu6")
        sixth = graph.create_op("MUL", [gate, 1 / 6], name=f"{node.name}/gate")
        return graph.create_op("MUL", [x, sixth], name=node.name)
