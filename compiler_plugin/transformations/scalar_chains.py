"""Chains of ops that compute a function of one value and of numbers, whatever their spelling.

Converters write `relu6(x + 3) / 6` in many ways: the clamp as an op of its own, as a fused activation, as MINIMUM
and MAXIMUM; the factor before or behind it, as a product or a quotient. What all of them are is found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf

from compiler_plugin.transformations.node import Node, OutPort
from litert.core.element_type import ElementType

CLAMPS = {
    "RELU": (0.0, inf),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
"""What clamping ops, and fused activations of these names, keep values within."""


_MOST_PRODUCTS, _MOST_STEPS = 4, 8
"""How far up a chain is followed: further than converters write them, and no more where one has thousands of ops.
What is behind products is found from the other side of a gate too, which is longer by a sum, a product or both."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`scale * port + offset`."""

    port: OutPort
    scale: float = 1.0
    offset: float = 0.0

    def of(self, inner: Affine) -> Affine:
        """The same function of what its port is a function of."""
        return Affine(inner.port, self.scale * inner.scale, self.scale * inner.offset + self.offset)


@dataclass(frozen=True, slots=True)
class Clamp:
    """`min(max(inner, low), high)`, with what is clamped as `find_affine` gives it."""

    inner: Sequence[Affine]
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


def find_affine(port: OutPort, ignore_activation: bool = False) -> list[Affine]:
    """What a float32 port is by sums and products with numbers: itself, then functions of what is further up.

    The last op's fused activation can count as none.
    """
    chain = [Affine(port)]
    for _ in range(_MOST_STEPS):
        step = _find_step(chain[-1].port, ignore_activation and len(chain) == 1)
        if step is None:
            break
        chain.append(chain[-1].of(step))
    return chain


def find_scaled(port: OutPort) -> list[Affine]:
    """As `find_affine`, of products alone: offsets are 0."""
    return list(takewhile(lambda one: not one.offset, find_affine(port)[: _MOST_PRODUCTS + 1]))


def in_terms_of(chain: Sequence[Affine], other: OutPort) -> Affine | None:
    """What a chain is as a function of a port of it, or of one that comes from there too; None if it is none."""
    bases = {base.port: base for base in find_affine(other)}
    for one in chain:
        base = bases.get(one.port)
        if base is not None:
            if not base.scale:
                return None
            scale = one.scale / base.scale
            return Affine(other, scale, one.offset - scale * base.offset)
    return None


def find_clamp(port: OutPort, most_ops: int = _MOST_STEPS) -> Clamp | None:
    """The clamp that ends in a port: ops, a fused activation, or both; None where there is none."""
    node = port.node
    if node.soft_get("fused_activation_function") in CLAMPS:
        inner = find_affine(port, ignore_activation=True)
        if len(inner) == 1:
            return None
        return Clamp(inner[1:], *CLAMPS[node.fused_activation_function])
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
    before = find_clamp(source, most_ops - 1) if most_ops else None
    if before is None:
        return Clamp(find_affine(source), *limits)
    return Clamp(before.inner, max(before.low, limits[0]), min(before.high, limits[1]))


def find_operands(node: Node) -> tuple[OutPort | None, float | None, bool]:
    """Of an op of two operands: the one that is no number, the number, and whether that comes second.

    Where none is a number, the second operand and None. A damaged file may have an op without a second.
    """
    if len(node.in_ports()) != 2:
        return None, None, False
    first, second = (port.get_source() for port in node.in_ports().values())
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
