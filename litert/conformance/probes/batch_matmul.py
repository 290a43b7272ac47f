"""Probes of BATCH_MATMUL: transposed inputs, the order of inputs, broadcast batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from litert.conformance.probe import (
    Operand,
    Probe,
    one_op,
    probe_name,
    random_floats,
    random_integers,
)
from litert.model.graph import Model

_OP = "BATCH_MATMUL"
_SQUARE = (2, 4, 4)


def _float(x: Sequence[int], z: Sequence[int], y: Sequence[int], **options: bool) -> Model:
    return one_op(_OP, [Operand(x), Operand(z)], Operand(y), **options)


def _by_constant() -> Model:
    weights = Operand((4, 5), data=random_floats(3, 1, (4, 5)))
    return one_op(_OP, [Operand((2, 3, 4)), weights], Operand((2, 3, 5)))


def _quantized(zero_points: tuple[int, int, int] = (0, 0, 0), *, is_constant: bool = True) -> Model:
    x, z, y = (
        Operand(_SQUARE, "int8", scales=(scale,), zero_point=zero)
        for scale, zero in zip((0.04, 0.04, 0.25), zero_points, strict=True)
    )
    # Sums of two 7-bit products fit in 16 bits.
    constant = replace(z, data=random_integers(4, 63, _SQUARE, "int8"))
    return one_op(_OP, [x, constant if is_constant else z], y)


_CONSTANT = probe_name(_OP, "int8", "a constant")
_FLOAT = partial(Probe, _OP, "float32")
_SHAPES = ((2, 3, 4), (2, 4, 5), (2, 3, 5))

PROBES = (
    _FLOAT("", partial(_float, *_SHAPES)),
    _FLOAT("square", partial(_float, *[_SQUARE] * 3), is_ordered=True),
    _FLOAT("adj_x", partial(_float, *[_SQUARE] * 3, adj_x=True), is_ordered=True),
    _FLOAT("adj_y", partial(_float, *[_SQUARE] * 3, adj_y=True), is_ordered=True),
    _FLOAT(
        "one batch by two", partial(_float, (1, 3, 4), *_SHAPES[1:]), "values.broadcast", (_OP,)
    ),
    _FLOAT("a constant", _by_constant),
    Probe(_OP, "int8", "a constant", _quantized),
    Probe(
        _OP,
        "int8",
        "",
        partial(_quantized, is_constant=False),
        "values.accumulation",
        (_CONSTANT,),
        is_ordered=True,
    ),
    Probe(
        _OP,
        "int8",
        "zero points",
        partial(_quantized, (-40, 25, 9)),
        "values.zero_point",
        (_CONSTANT,),
    ),
)
