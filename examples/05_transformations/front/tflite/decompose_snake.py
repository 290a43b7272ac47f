"""Snake becomes ops that every NPU has."""

from __future__ import annotations

from compiler_plugin.transformations import Graph, Node, OpReplacement


class DecomposeSnake(OpReplacement):
    """Snake becomes x + sin(alpha * x)^2 / alpha, of MUL, SIN and ADD."""

    op = "Snake"

    def replace_op(self, graph: Graph, node: Node) -> Node:
        """The sum takes the op's place, and its name. No shape is needed, so any shape will do."""
        x = node.in_port(0).get_source()
        name = node.name
        wave = graph.create_op("SIN", [graph.create_op("MUL", [x, node.alpha])], name=f"{name}/sin")
        square = graph.create_op("MUL", [wave, wave], name=f"{name}/square")
        scaled = graph.create_op("MUL", [square, 1 / node.alpha], name=f"{name}/scaled")
        return graph.create_op("ADD", [x, scaled], name=name)
