"""Replaces the custom op Snake by builtin ops that every NPU supports."""

from __future__ import annotations

from compiler_plugin.transformations import Graph, Node, OpReplacement


class DecomposeSnake(OpReplacement):
    """Replaces Snake by x + sin(alpha * x)^2 / alpha, computed with MUL, SIN and ADD."""

    op = "Snake"

    def replace_op(self, graph: Graph, node: Node) -> Node:
        """Returns the ADD op that replaces the Snake op and takes its name; the shapes need not be known."""
        x = node.in_port(0).get_source()
        name = node.name
        wave = graph.create_op("SIN", [graph.create_op("MUL", [x, node.alpha])], name=f"{name}/sin")
        square = graph.create_op("MUL", [wave, wave], name=f"{name}/square")
        scaled = graph.create_op("MUL", [square, 1 / node.alpha], name=f"{name}/scaled")
        return graph.create_op("ADD", [x, scaled], name=name)
