"""Finds the function of one tensor that a chain of ops with constant numbers computes.

Converters write `relu6(x + 3) / 6` in many ways. The clamp is a RELU6 op, a fused activation, or MINIMUM and
MAXIMUM; the factor comes before or after the clamp, as a product or a quotient. This module finds the same
function for all of these chains.
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
"""Lower and upper limits of clamping ops, and of fused activations with the same names."""


_MOST_PRODUCTS, _MOST_STEPS = 4, 8
"""Largest numbers of products, and of ops of any kind, that are followed in a chain.

Converters write shorter chains; the limits bound the search in chains of thousands of ops.
"""


@dataclass(frozen=True, slots=True)
class Affine:
    """The function `scale * port + offset` of a port."""

    port: OutPort
    scale: float = 1.0
    offset: float = 0.0

    def of(self, inner: Affine) -> Affine:
        """Returns this function with `inner` in place of its port; `inner` must be the function for that port."""
        return Affine(inner.port, self.scale * inner.scale, self.scale * inner.offset + self.offset)


@dataclass(frozen=True, slots=True)
class Clamp:
    """The function `min(max(inner, low), high)`; `inner` is a list that `find_affine` returns."""

    inner: Sequence[Affine]
    low: float
    high: float


def find_number(port: OutPort | None) -> float | None:
    """Returns the only element of a float32 constant; None for any other port."""
    if port is None or not port.node.is_const:
        return None
    if port.tensor.element_type is not ElementType.FLOAT32 or any(
        s != 1 for s in port.tensor.shape
    ):
        return None
    value = port.data.get_value()
    return None if value is None else float(value.reshape(()))


def find_affine(port: OutPort, ignore_activation: bool = False) -> list[Affine]:
    """Returns a float32 port as affine functions of the port itself, and then of each earlier port in its chain.

    If `ignore_activation` is true, the fused activation of the last op is ignored.
    """
    chain = [Affine(port)]
    for _ in range(_MOST_STEPS):
        step = _find_step(chain[-1].port, ignore_activation and len(chain) == 1)
        if step is None:
            break
        chain.append(chain[-1].of(step))
    return chain


def find_scaled(port: OutPort) -> list[Affine]:
    """Same as `find_affine`, but stops before the first function with an offset."""
    return list(takewhile(lambda one: not one.offset, find_affine(port)[: _MOST_PRODUCTS + 1]))


def in_terms_of(chain: Sequence[Affine], other: OutPort) -> Affine | None:
    """Returns a chain as an affine function of `other`; None if it shares no port with the chain of `other`."""
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
    """Returns the clamp that ops or a fused activation compute for a port; None if there is no clamp."""
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
    """Returns the operands of an op: a port, a number, and whether the number is the second operand.

    If neither operand is a number, the returned number is None. In a damaged file, an op may have no second
    operand.
    """
    if len(node.in_ports()) != 2:
        return None, None, False
    first, second = (port.get_source() for port in node.in_ports().values())
    number = find_number(second)
    if number is not None:
        return first, number, True
    return second, find_number(first), False


def _find_step(port: OutPort, ignore_activation: bool) -> Affine | None:
    """Returns a port as a sum, difference, product or quotient of another port and a number."""
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
