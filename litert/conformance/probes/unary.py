"""Probes of elementwise ops with one input, and of SOFTMAX."""

from __future__ import annotations

from functools import partial
from typing import Any

from litert.conformance.probe import VALUES, Operand, Probe, one_op, probe_name
from litert.model.graph import Model

_SHAPE = (1, 4, 4, 8)
_ACTIVATIONS = ("RELU", "RELU6")


def _float(op: str, **options: Any) -> Model:
    return one_op(op, [Operand(_SHAPE)], Operand(_SHAPE), **options)


def _quantized(op: str, zero_points: tuple[int, int] = (0, 0)) -> Model:
    x, y = (
        Operand(_SHAPE, "int8", scales=(scale,), zero_point=zero)
        for scale, zero in zip((0.08, 0.05), zero_points, strict=True)
    )
    return one_op(op, [x], y)


PROBES = (
    *(
        Probe(op, "float32", "", partial(_float, op), "values.activation", lowest=-9, highest=9)
        for op in _ACTIVATIONS
    ),
    *(
        Probe(op, "int8", "", partial(_quantized, op), "values.activation") for op in _ACTIVATIONS
    ),
    *(
        Probe(op, "int8", "zero points", partial(_quantized, op, (-17, -30)),
              "values.zero_point", (probe_name(op, "int8"),))
        for op in _ACTIVATIONS
    ),
    *(
        Probe(op, "float32", "", partial(_float, op), VALUES, lowest=-3, highest=3)
        for op in ("ABS", "LOGISTIC", "TANH")
    ),
    Probe("SOFTMAX", "float32", "", partial(_float, "SOFTMAX", beta=1.0)),
)  # fmt: skip
