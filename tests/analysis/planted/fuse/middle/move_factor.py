"""The factor of a square moves in front of it, into both operands, where one is right."""

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
    """x * x * factor becomes (x * factor) * (x * factor)."""

    pattern = Match(
        "MUL", Match("MUL", Any("x"), Any("x"), uses=1), Const("factor"), name="product"
    )

    def rewrite(self, graph: Graph, x: OutPort, factor: Node, product: Node) -> Node | None:
        """The new product has the name of the old one."""
        scaled = graph.create_op("MUL", [x, factor.out_port(0)], name=f"{product.name}/scaled")
        return graph.create_op("MUL", [scaled, scaled], name=product.name)
