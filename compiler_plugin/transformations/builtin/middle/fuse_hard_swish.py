"""Replaces x * relu6(x + 3) / 6 by HARD_SWISH, in all forms that converters write."""

from __future__ import annotations

from math import isclose

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement import OpReplacement
from compiler_plugin.transformations.scalar_chains import (
    find_clamp,
    find_operands,
    find_scaled,
    in_terms_of,
)
from litert.core.element_type import ElementType

_TOLERANCE = 3e-6
"""Relative tolerance for constants: 0.166667 counts as 1/6, and the relative error of results stays below 1e-5."""


class FuseHardSwish(OpReplacement):
    """Replaces x * relu6(x + 3) / 6 by HARD_SWISH (MobileNetV3, arXiv:1905.02244)."""

    op = ("MUL", "DIV")

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        """Returns HARD_SWISH of x if the op computes x * relu6(x + 3) / 6 in float32; None for all other ops."""
        result = node.out_port(0)
        if result.get_data_type() is not ElementType.FLOAT32:
            return None
        if node.fused_activation_function != "NONE":
            return None
        whole = find_scaled(result)[-1]
        product = whole.port.node
        if product.op != "MUL" or len(product.in_ports()) != 2:
            return None
        if product.fused_activation_function != "NONE":
            return None
        first, second = (port.get_source() for port in product.in_ports().values())
        if first is None or second is None or find_operands(product)[1] is not None:
            return None
        for one, other in ((first, second), (second, first)):
            x = _find_input(one, other, whole.scale)
            if x is not None and x.data.get_shape() == result.data.get_shape():
                return graph.create_op("HARD_SWISH", [x], name=node.name)
        return None


def _find_input(one: OutPort, other: OutPort, factor: float) -> OutPort | None:
    """Returns the port x for which `factor * one * other` is hard_swish(x); None if there is no such port."""
    gate = find_scaled(other)[-1]
    clamp = find_clamp(gate.port)
    if clamp is None or clamp.low != 0.0:
        return None
    for linear in find_scaled(one):
        inner = in_terms_of(clamp.inner, linear.port)
        if inner is None:
            continue
        number = factor * linear.scale * gate.scale  # number * clamp(inner) is relu6(x + 3) / 6
        found = (number * clamp.high, number * inner.scale, number * inner.offset)
        if all(
            isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(found, (1, 1 / 6, 1 / 2), strict=True)
        ):
            return linear.port
    return None
