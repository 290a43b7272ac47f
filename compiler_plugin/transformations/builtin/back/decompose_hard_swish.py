"""HARD_SWISH becomes ADD with RELU6 and two MUL, for NPUs that do not have it."""

from __future__ import annotations

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.replacement import OpReplacement
from litert.core.element_type import ElementType


class DecomposeHardSwish(OpReplacement):
    """HARD_SWISH becomes x * (relu6(x + 3) / 6), of ops that every NPU has."""

    enabled = False  # slower where the op is known
    op = "HARD_SWISH"

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        """The last product. Quantized ones stay: they round once, and their parts would do so each."""
        x = node.in_port(0).get_source()
        if x is None or x.get_data_type() is not ElementType.FLOAT32:
            return None
        options = {"fused_activation_function": "RELU6"}
        gate = graph.create_op("ADD", [x, 3.0], options, name=f"{node.name}/relu6")
        sixth = graph.create_op("MUL", [gate, 1 / 6], name=f"{node.name}/gate")
        return graph.create_op("MUL", [x, sixth], name=node.name)
