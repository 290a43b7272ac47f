"""A wrong transformation: it moves the factor of a square into both operands, where it belongs in one."""

from __future__ import annotations

from compiler_plugin.transformations import (
    Any,
    Const,
    Graph,
    Match,
    Node,
    OutPort,
    PatternReplacement,
)


class MoveFactor(PatternReplacement):
    """Replaces x * x * factor by (x * factor) * (x * factor)."""

    pattern = Match(
        "MUL", Match("MUL", Any("x"), Any("x"), uses=1), Const("factor"), name="product"
    )

    def rewrite(self, graph: Graph, x: OutPort, factor: Node, product: Node) -> Node | None:
        """Returns the new product, which keeps the name of the old one."""
        scaled = graph.create_op("MUL", [x, factor.out_port(0)], name=f"{product.name}/scaled")
        return graph.create_op("MUL", [scaled, scaled], name=product.name)
