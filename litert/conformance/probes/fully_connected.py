"""Probes of FULLY_CONNECTED: rows and images, bias, zero points, scales per channel, a fused activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from litert.conformance.probe import (
    VALUES,
    Operand,
    Probe,
    one_op,
    probe_name,
    random_floats,
    random_integers,
)
from litert.model.graph import Model

_OP = "FULLY_CONNECTED"
_IN, _OUT = 12, 5
_INPUT_SCALE, _OUTPUT_SCALE = 0.05, 0.5
_EQUAL = (0.04,)
_DIFFERENT = (0.04, 0.01, 0.08, 0.02, 0.004)


def _float(
    x: Sequence[int] = (3, _IN),
    y: Sequence[int] = (3, _OUT),
    bias: float | None = 0,
    **options: Any,
) -> Model:
    inputs = [Operand(x), Operand((_OUT, _IN), data=random_floats(0, 4, (_OUT, _IN)))]
    if bias is not None:
        inputs.append(Operand((_OUT,), data=random_floats(1, bias, (_OUT,))))
    return one_op(_OP, inputs, Operand(y), **options)


def _quantized(
    scales: Sequence[float] = _EQUAL,
    zero_points: tuple[int, int] = (0, 0),
    bias: float | None = 0,
    largest: int = 63,
    **options: Any,
) -> Model:
    x, y = (
        Operand((3, size), "int8", scales=(scale,), zero_point=zero)
        for size, scale, zero in zip(
            (_IN, _OUT), (_INPUT_SCALE, _OUTPUT_SCALE), zero_points, strict=True
        )
    )
    data = random_integers(0, largest, (_OUT, _IN), "int8")
    inputs = [x, Operand((_OUT, _IN), "int8", data, scales)]
    if bias is not None:
        steps = int(bias * 30 / (_INPUT_SCALE * _EQUAL[0]))
        data = random_integers(1, steps, (_OUT,), "int32")
        inputs.append(Operand((_OUT,), "int32", data, [_INPUT_SCALE * scale for scale in scales]))
    return one_op(_OP, inputs, y, **options)


_RELU6: Mapping[str, Any] = {"fused_activation_function": "RELU6"}
_INT8 = probe_name(_OP, "int8")
_FEATURES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bias": ("values.bias", {"bias": 1}),
    "zero points": ("values.zero_point", {"zero_points": (-50, 20)}),
    "weights of 8 bits": ("values.accumulation", {"largest": 127, "scales": (0.02,)}),
    "scales by channel": ("values.per_channel", {"scales": _DIFFERENT}),
    "fused RELU6": ("values.activation", _RELU6),
}
_BIAS_BY_CHANNEL = "scales by channel, bias"
_WHOLE: Mapping[str, Any] = {"bias": 1, "zero_points": (-50, 20), "scales": _DIFFERENT, **_RELU6}
_IMAGE = (1, 2, 2, _IN)

PROBES = (
    Probe(_OP, "float32", "", _float),
    Probe(_OP, "float32", "no bias", partial(_float, bias=None)),
    Probe(_OP, "float32", "bias", partial(_float, bias=8), "values.bias", (_OP,)),
    Probe(_OP, "float32", "fused RELU6", partial(_float, **_RELU6), "values.activation", (_OP,)),
    Probe(_OP, "float32", "an image", partial(_float, _IMAGE, (4, _OUT))),
    Probe(
        _OP,
        "float32",
        "an image, keep_num_dims",
        partial(_float, _IMAGE, (1, 2, 2, _OUT), keep_num_dims=True),
    ),
    Probe(_OP, "int8", "", _quantized),
    Probe(_OP, "int8", "no bias", partial(_quantized, bias=None)),
    *(
        Probe(_OP, "int8", variant, partial(_quantized, **options), rule, (_INT8,))
        for variant, (rule, options) in _FEATURES.items()
    ),
    Probe(
        _OP,
        "int8",
        _BIAS_BY_CHANNEL,
        partial(_quantized, bias=1, scales=_DIFFERENT),
        "values.per_channel",
        [probe_name(_OP, "int8", variant) for variant in _BIAS_BY_CHANNEL.split(", ")],
    ),
    Probe(
        _OP,
        "int8",
        "all together",
        partial(_quantized, **_WHOLE),
        VALUES,
        [_INT8, *(probe_name(_OP, "int8", each) for each in (*_FEATURES, _BIAS_BY_CHANNEL))],
    ),
)
