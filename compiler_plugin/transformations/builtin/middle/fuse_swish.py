"""Replaces x * sigmoid(beta * x) by a custom op Swish, for NPUs with a kernel for Swish."""

from __future__ import annotations

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement import OpReplacement
from compiler_plugin.transformations.scalar_chains import (
    Affine,
    find_affine,
    find_operands,
    in_terms_of,
)
from litert.core.element_type import ElementType


class FuseSwish(OpReplacement):
    """Replaces x * sigmoid(beta * x), or x / (1 + exp(-beta * x)), by a custom op Swish (arXiv:1710.05941)."""

    enabled = False  # stock LiteRT has no such op
    op = ("MUL", "DIV")

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        """Returns Swish of x if the op computes x * sigmoid(beta * x); None for all other ops."""
        result = node.out_port(0)
        if result.get_data_type() is not ElementType.FLOAT32:
            return None
        if node.fused_activation_function != "NONE" or len(node.in_ports()) != 2:
            return None
        first, second = (port.get_source() for port in node.in_ports().values())
        if first is None or second is None:
            return None
        pairs = ((first, second),) if node.op == "DIV" else ((first, second), (second, first))
        for x, other in pairs:
            inner = _find_sigmoid(other) if node.op == "MUL" else _find_divisor(other)
            gate = in_terms_of(inner, x)
            if gate is None or gate.offset or x.data.get_shape() != result.data.get_shape():
                continue
            return graph.create_op(
                "Swish", [x], {"beta": gate.scale}, name=node.name, is_custom=True
            )
        return None


def _find_sigmoid(port: OutPort) -> list[Affine]:
    """Returns z, as a list of `find_affine`, if a port is sigmoid(z); otherwise an empty list."""
    if port.node.op == "LOGISTIC":
        source = port.node.in_port(0).get_source()
        return [] if source is None else find_affine(source)
    if port.node.op == "DIV" and port.node.fused_activation_function == "NONE":
        divisor, one, is_second = find_operands(port.node)
        if divisor is not None and one == 1.0 and not is_second:
            return _find_divisor(divisor)
    return []


def _find_divisor(port: OutPort) -> list[Affine]:
    """Returns z, as a list of `find_affine`, if a port is 1 + exp(-z); otherwise an empty list."""
    node = port.node
    if node.op != "ADD" or node.fused_activation_function != "NONE":
        return []
    power, one, _ = find_operands(node)
    if power is None or one != 1.0 or power.node.op != "EXP":
        return []
    source = power.node.in_port(0).get_source()
    if source is None:
        return []
    return [Affine(one.port, -one.scale, -one.offset) for one in find_affine(source)]
