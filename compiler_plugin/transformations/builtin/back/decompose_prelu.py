"""Decomposes PRELU into RELU, MINIMUM, MUL and ADD, for NPUs that do not support PRELU."""

from __future__ import annotations

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.replacement import OpReplacement
from litert.core.element_type import ElementType


class DecomposePrelu(OpReplacement):
    """Decomposes PRELU into relu(x) + alpha * min(x, 0), for NPUs that support only basic ops."""

    enabled = False  # slower if the runtime supports the op
    op = "PRELU"

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        """Returns the ADD of the decomposition.

        Quantized PRELU ops are not decomposed, because they round once, whereas each op of the decomposition would
        round.
        """
        if len(node.in_ports()) != 2:
            return None
        x, alpha = (port.get_source() for port in node.in_ports().values())
        if x is None or alpha is None or x.get_data_type() is not ElementType.FLOAT32:
            return None
        positive = graph.create_op("RELU", [x], name=f"{node.name}/positive")
        negative = graph.create_op("MINIMUM", [x, 0.0], name=f"{node.name}/negative")
        scaled = graph.create_op("MUL", [negative, alpha], name=f"{node.name}/scaled")
        return graph.create_op("ADD", [positive, scaled], name=node.name)
