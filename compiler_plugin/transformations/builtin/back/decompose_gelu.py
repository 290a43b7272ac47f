"""Decomposes GELU into TANH or EXP, sums and products, for NPUs that do not support GELU."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement import OpReplacement
from litert.core.element_type import ElementType

_ERF_STEP = 0.3275911
_ERF_FACTORS = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""For z >= 0, erf(z) = 1 - (a1 t + ... + a5 t^5) exp(-z^2) with t = 1 / (1 + p z), with an error below 1.5e-7
(Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26)."""


class DecomposeGelu(OpReplacement):
    """Decomposes GELU into TANH (or EXP, for the exact variant), sums and products (arXiv:1606.08415)."""

    enabled = False  # slower if the runtime supports the op
    op = "GELU"

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        """Returns the last MUL of the decomposition.

        Quantized GELU ops are not decomposed, because their kernel looks up results in a table of 256 values, and
        smaller ops cannot give exactly these results.
        """
        x = node.in_port(0).get_source()
        if x is None or x.get_data_type() is not ElementType.FLOAT32:
            return None
        ops = _Ops(graph, node.name)
        bend = _tanh(ops, x) if node.approximate else _erf(ops, x)
        return ops.op("MUL", ops.op("MUL", x, 0.5), ops.op("ADD", bend, 1.0))


class _Ops:
    """Creates ops whose names begin with the name of the decomposed op."""

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph = graph
        self._name = name

    def op(self, op: str, *inputs: Any) -> Node:
        return self._graph.create_op(op, inputs, name=f"{self._name}/{op.lower()}")


def _tanh(ops: _Ops, x: OutPort) -> Node:
    """tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))."""
    cube = ops.op("MUL", ops.op("MUL", x, x), x)
    inner = ops.op("ADD", x, ops.op("MUL", cube, 0.044715))
    return ops.op("TANH", ops.op("MUL", inner, sqrt(2 / pi)))


def _erf(ops: _Ops, x: OutPort) -> Node:
    """erf(x / sqrt(2)): the sign of x, times the approximation for the absolute value of x."""
    z = ops.op("MUL", ops.op("ABS", x), sqrt(0.5))
    t = ops.op("DIV", 1.0, ops.op("ADD", ops.op("MUL", z, _ERF_STEP), 1.0))
    polynomial: Any = _ERF_FACTORS[-1]
    for factor in reversed(_ERF_FACTORS[:-1]):
        polynomial = ops.op("ADD", ops.op("MUL", t, polynomial), factor)
    bell = ops.op("EXP", ops.op("NEG", ops.op("MUL", z, z)))
    tail = ops.op("MUL", ops.op("MUL", polynomial, t), bell)
    return ops.op("MUL", ops.op("SIGN", x), ops.op("SUB", 1.0, tail))
