"""Chains of ops that compute a function of one value and of numbers, whatever their spelling.

Converters write `relu6(x + 3) / 6` in many ways: the clamp as an op of its own, as a fused activation, as MINIMUM
and MAXIMUM; the factor before or behind it, as a product or a quotient. What all of them are is found here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.ports import OutPort
from litert.core.element_type import ElementType

CLAMPS = {
    "RELU": (0.0, inf),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
"""What clamping ops, and fused activations of these names, keep values within."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`scale * port + offset`."""

    port: OutPort
    scale: float = 1.0
    offset: float = 0.0

    def in_terms_of(self, other: OutPort) -> Affine | None:
        """The same as a function of another port of the chain; None where it is none."""
        base = find_affine(other)
        if base.port != self.port or not base.scale:
            return None
        scale = self.scale / base.scale
        return Affine(other, scale, self.offset - scale * base.offset)


@dataclass(frozen=True, slots=True)
class Clamp:
    """`min(max(inner, low), high)`."""

    inner: Affine
    low: float
    high: float


def find_number(port: OutPort | None) -> float | None:
    """The only element of a float32 constant; None for anything else."""
    if port is None or not port.node.is_const:
        return None
    if port.tensor.element_type is not ElementType.FLOAT32 or any(
        s != 1 for s in port.tensor.shape
    ):
        return None
    value = port.data.get_value()
    return None if value is None else float(value.reshape(()))


def find_affine(port: OutPort, ignore_activation: bool = False) -> Affine:
    """The longest chain of sums and products with numbers that ends in a port; at least the port itself.

    Args:
      port: float32.
      ignore_activation: whether the last op's fused activation counts as none.
    """
    last = _find_step(port, ignore_activation)
    if last is None:
        return Affine(port)
    before = find_affine(last.port)
    return Affine(before.port, last.scale * before.scale, last.scale * before.offset + last.offset)


def find_scaled(port: OutPort) -> Affine:
    """As `find_affine`, of products alone: the offset is 0."""
    last = _find_step(port, ignore_activation=False)
    if last is None or last.offset:
        return Affine(port)
    before = find_scaled(last.port)
    return Affine(before.port, last.scale * before.scale)


def find_clamp(port: OutPort) -> Clamp | None:
    """The clamp that ends in a port: ops, a fused activation, or both; None where there is none."""
    node = port.node
    if node.soft_get("fused_activation_function") in CLAMPS:
        inner = find_affine(port, ignore_activation=True)
        if inner.port == port:
            return None
        return Clamp(inner, *CLAMPS[node.fused_activation_function])
    if node.op in CLAMPS:
        source, limits = node.in_port(0).get_source(), CLAMPS[node.op]
    elif node.op in ("MINIMUM", "MAXIMUM"):
        source, number, _ = find_operands(node)
        if number is None:
            return None
        limits = (-inf, number) if node.op == "MINIMUM" else (number, inf)
    else:
        return None
    if source is None:
        return None
    before = find_clamp(source)
    if before is None:
        return Clamp(find_affine(source), *limits)
    return Clamp(before.inner, max(before.low, limits[0]), min(before.high, limits[1]))


def find_operands(node: Node) -> tuple[OutPort | None, float | None, bool]:
    """Of an op of two operands: the one that is no number, the number, and whether that comes second.

    Where none is a number, the second operand and None.
    """
    first, second = (port.get_source() for port in node.in_ports()[:2])
    number = find_number(second)
    if number is not None:
        return first, number, True
    return second, find_number(first), False


def _find_step(port: OutPort, ignore_activation: bool) -> Affine | None:
    """A sum, difference, product or quotient of something and a number."""
    node = port.node
    if node.op == "NEG":
        source = node.in_port(0).get_source()
        return None if source is None else Affine(source, -1.0)
    if node.op not in ("ADD", "SUB", "MUL", "DIV"):
        return None
    if not ignore_activation and node.fused_activation_function != "NONE":
        return None
    source, number, is_second = find_operands(node)
    if source is None or number is None:
        return None
    if node.op == "ADD":
        return Affine(source, 1.0, number)
    if node.op == "SUB":
        return Affine(source, 1.0, -number) if is_second else Affine(source, -1.0, number)
    if node.op == "MUL":
        return Affine(source, number)
    return Affine(source, 1.0 / number) if is_second and number else None
