"""A wrong transformation: it replaces Triple by a sum with one term too few."""

from __future__ import annotations

from compiler_plugin.transformations import Graph, Node, OpReplacement


class DecomposeTriple(OpReplacement):
    """Replaces Triple by x + x."""

    op = "Triple"

    def replace_op(self, graph: Graph, node: Node) -> Node:
        """Returns the sum that replaces the op."""
        x = node.in_port(0).get_source()
        return graph.create_op("ADD", [x, x], name=node.name)
