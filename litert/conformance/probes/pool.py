"""Probes of pooling ops: strides, and padding, which must not change an average or a maximum."""

from __future__ import annotations

from functools import partial

from litert.conformance.probe import VALUES, Operand, Probe, one_op
from litert.model.graph import Model

_SIZES = {"VALID": (2, 3), "SAME": (3, 4)}


def _build(op: str, padding: str) -> Model:
    return one_op(
        op,
        [Operand((1, 6, 7, 4))],
        Operand((1, *_SIZES[padding], 4)),
        padding=padding,
        stride_h=2,
        stride_w=2,
        filter_height=3,
        filter_width=2,
    )


PROBES = tuple(
    Probe(op, "float32", variant, partial(_build, op, padding), rule, needs, lowest=-2, highest=-1)
    for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
    for variant, padding, rule, needs in (
        ("", "VALID", VALUES, ()),
        ("SAME", "SAME", "values.padding", (op,)),
    )
)
