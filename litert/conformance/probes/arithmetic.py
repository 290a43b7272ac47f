"""Probes of elementwise ops with two inputs: order of inputs, constants, broadcasting, fused activations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from litert.conformance.probe import Operand, Probe, one_op, probe_name
from litert.model.builder import ModelBuilder
from litert.model.graph import Model

_SHAPE = (1, 4, 4, 8)
_LARGE = (1, 64, 64, 8)  # large enough that runs in threads overlap
_ROW = (1, 1, 4, 1)
_BASIC = ("ADD", "MUL", "SUB")
_ORDERED = ("DIV", "POW", "SUB")
_POSITIVE = (0.5, 2.0)  # for divisors and bases


def _op(op: str, x: Sequence[int] = _SHAPE, z: Sequence[int] = _SHAPE, **options: Any) -> Model:
    return one_op(op, [Operand(x), Operand(z)], Operand(x), **options)


def _turned(op: str) -> Model:
    """Makes a model whose first input is the second input of the op."""
    builder = ModelBuilder()
    x, z = (builder.input(name, "float32", _SHAPE) for name in "xz")
    builder.output(builder.op(op, [z, x], [("y", "float32", _SHAPE)]))
    return builder.build()


def _chain() -> Model:
    """Makes a model with several ops, in which the order of inputs matters and two ops read the same input."""
    builder = ModelBuilder()
    x, z = (builder.input(name, "float32", _SHAPE) for name in "xz")
    difference = builder.op("SUB", [z, x], [("d", "float32", _SHAPE)])
    builder.output(builder.op("MUL", [difference, x], [("y", "float32", _SHAPE)]))
    return builder.build()


def _square() -> Model:
    builder = ModelBuilder()
    x = builder.input("x", "float32", _SHAPE)
    builder.output(builder.op("MUL", [x, x], [("y", "float32", _SHAPE)]))
    return builder.build()


def _with_constant(op: str, *, is_first: bool) -> Model:
    import numpy as np

    data = np.linspace(-2, 3, 128, dtype=np.float32).reshape(_SHAPE)
    operands = [Operand(_SHAPE), Operand(_SHAPE, data=data)]
    return one_op(op, operands[::-1] if is_first else operands, Operand(_SHAPE))


def _quantized(
    op: str,
    scales: tuple[float, float] = (0.05, 0.05),
    zero_points: tuple[int, int, int] = (0, 0, 0),
) -> Model:
    x, z, y = (
        Operand(_SHAPE, "int8", scales=(scale,), zero_point=zero)
        for scale, zero in zip((*scales, 0.2 if op == "MUL" else 0.1), zero_points, strict=True)
    )
    return one_op(op, [x, z], y)


def _ordered(op: str, variant: str, build: Any) -> Probe:
    low, high = (-1.0, 1.0) if op == "SUB" else _POSITIVE
    return Probe(
        op, "float32", variant, build, is_ordered=True, lowest=low, highest=high
    )  # fmt: skip


PROBES = (
    *(
        Probe(op, "float32", "", partial(_op, op), is_ordered=op in _ORDERED) for op in _BASIC
    ),
    Probe("MUL", "float32", "one input", _square, needs=("MUL",)),
    Probe("MUL", "float32", "a constant", partial(_with_constant, "MUL", is_first=False), needs=("MUL",)),
    Probe("SUB", "float32", "then MUL", _chain, needs=("SUB",), is_ordered=True),
    *(_ordered(op, "", partial(_op, op)) for op in _ORDERED if op not in _BASIC),
    *(_ordered(op, "from the second input", partial(_turned, op)) for op in _ORDERED),
    Probe("SUB", "float32", "a constant", partial(_with_constant, "SUB", is_first=False), needs=("SUB",)),
    Probe("SUB", "float32", "from a constant", partial(_with_constant, "SUB", is_first=True), needs=("SUB",)),
    *(Probe(op, "float32", "", partial(_op, op)) for op in ("MAXIMUM", "MINIMUM")),
    *(
        Probe(op, "float32", "128 KiB", partial(_op, op, _LARGE, _LARGE), needs=(op,),
              is_ordered=op in _ORDERED)
        for op in _BASIC
    ),
    *(
        Probe(op, "float32", "a row", partial(_op, op, z=_ROW), "values.broadcast", (op,))
        for op in _BASIC
    ),
    *(
        Probe(op, "float32", f"fused {function}",
              partial(_op, op, fused_activation_function=function), "values.activation", (op,),
              is_ordered=op in _ORDERED, lowest=-5, highest=5)
        for op in _BASIC
        for function in ("RELU", "RELU6")
    ),
    *(
        Probe(op, "int8", "", partial(_quantized, op), is_ordered=op in _ORDERED)
        for op in _BASIC
    ),
    *(
        Probe(op, "int8", "two scales", partial(_quantized, op, (0.05, 0.02)),
              needs=(probe_name(op, "int8"),))
        for op in _BASIC
    ),
    *(
        Probe(op, "int8", "zero points", partial(_quantized, op, zero_points=(33, -57, 11)),
              "values.zero_point", (probe_name(op, "int8"),))
        for op in _BASIC
    ),
)  # fmt: skip
