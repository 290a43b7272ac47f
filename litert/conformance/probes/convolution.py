"""Probes of CONV_2D and DEPTHWISE_CONV_2D: padding, strides, dilation, bias, scales, zero points.

Each probe tests one property, and is a plain convolution in all other respects: the bias is zero, the scales are
equal, the zero points are 0, and there is no padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
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

_HEIGHT, _WIDTH, _IN, _OUT = 6, 7, 3, 6
_INPUT_SCALE, _OUTPUT_SCALE, _BIAS = 0.05, 0.6, 8
_ZERO_POINTS = (-50, 20)
_EQUAL = (0.04,)
_DIFFERENT = (0.04, 0.01, 0.08, 0.02, 0.06, 0.004)


@dataclass(frozen=True, slots=True)
class _Convolution:
    """Options of a convolution; the pairs contain values for height and width.

    Attributes:
      bias: Largest magnitude of the bias's elements.
      scales: Scales of the weights for successive output channels, repeated for further channels.
      zero_points: Zero points of the input and of the output.
      weights, largest: Largest magnitude of float weights, and of int8 weights; int8 weights have 7 bits, so that
        the sum of two products fits in 16 bits.
    """

    padding: str = "VALID"
    filter: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    bias: float = 0
    scales: tuple[float, ...] = _EQUAL
    is_per_tensor: bool = False
    zero_points: tuple[int, int] = (0, 0)
    activation: str = "NONE"
    weights: float = 1
    largest: int = 63

    @property
    def size(self) -> list[int]:
        """Computes the height and width of the output."""
        covered = [(n - 1) * d + 1 for n, d in zip(self.filter, self.dilation, strict=True)]
        lost = [0, 0] if self.padding == "SAME" else [n - 1 for n in covered]
        there = zip((_HEIGHT, _WIDTH), lost, self.stride, strict=True)
        return [ceil((n - less) / step) for n, less, step in there]


def _build(op: str, types: str, shape: _Convolution) -> Model:
    is_depthwise = op == "DEPTHWISE_CONV_2D"
    filters = (1, *shape.filter, _OUT) if is_depthwise else (_OUT, *shape.filter, _IN)
    x, y = Operand((1, _HEIGHT, _WIDTH, _IN)), Operand((1, *shape.size, _OUT))
    if types == "float32":
        weights = Operand(filters, data=random_floats(0, shape.weights, filters))
        operands = [x, weights, Operand((_OUT,), data=random_floats(1, shape.bias, (_OUT,)))]
    else:
        x, y, operands = _quantized(shape, filters, x, y, 3 if is_depthwise else 0)
    options: dict[str, Any] = {"depth_multiplier": _OUT // _IN} if is_depthwise else {}
    return one_op(
        op,
        operands,
        y,
        padding=shape.padding,
        stride_h=shape.stride[0],
        stride_w=shape.stride[1],
        dilation_h_factor=shape.dilation[0],
        dilation_w_factor=shape.dilation[1],
        fused_activation_function=shape.activation,
        **options,
    )


def _quantized(
    shape: _Convolution, filters: tuple[int, ...], x: Operand, y: Operand, axis: int
) -> tuple[Operand, Operand, list[Operand]]:
    """Makes the int8 tensors of a convolution: the image, the output, and all inputs."""
    zero_x, zero_y = shape.zero_points
    x = replace(x, element_type="int8", scales=(_INPUT_SCALE,), zero_point=zero_x)
    y = replace(y, element_type="int8", scales=(_OUTPUT_SCALE,), zero_point=zero_y)
    scales = [
        shape.scales[i % len(shape.scales)] for i in range(1 if shape.is_per_tensor else _OUT)
    ]
    weights = Operand(
        filters, "int8", random_integers(0, shape.largest, filters, "int8"), scales, axis=axis
    )  # fmt: skip
    steps = int(shape.bias * _BIAS / (_INPUT_SCALE * _EQUAL[0]))
    data = random_integers(1, steps, (_OUT,), "int32")
    bias = Operand((_OUT,), "int32", data, [_INPUT_SCALE * scale for scale in scales])
    return x, y, [x, weights, bias]


_PLAIN = _Convolution()
_VARIANTS = {
    "": (VALUES, _PLAIN),
    "strides 2 and 3": ("values.strides", replace(_PLAIN, stride=(2, 3))),
    "SAME": ("values.padding", replace(_PLAIN, padding="SAME")),
    "SAME, an even filter": ("values.padding", replace(_PLAIN, padding="SAME", filter=(2, 4))),
    "SAME, strides 2 and 3": (
        "values.padding",
        replace(_PLAIN, padding="SAME", stride=(2, 3)),
    ),
    "dilation 2 and 3": ("values.dilation", replace(_PLAIN, dilation=(2, 3))),
    "bias": ("values.bias", replace(_PLAIN, bias=4)),
    "fused RELU6": ("values.activation", replace(_PLAIN, activation="RELU6", weights=6)),
}
_QUANTIZED = {
    "one scale": (VALUES, replace(_PLAIN, is_per_tensor=True)),
    "weights of 8 bits": (
        "values.accumulation",
        replace(_PLAIN, largest=127, scales=(0.02,)),
    ),
    "scales by channel": ("values.per_channel", replace(_PLAIN, scales=_DIFFERENT)),
    "scales by channel, bias": (
        "values.per_channel",
        replace(_PLAIN, scales=_DIFFERENT, bias=1),
    ),
    "zero points": ("values.zero_point", replace(_PLAIN, zero_points=_ZERO_POINTS)),
    "SAME, zero points": (
        "values.padding",
        replace(_PLAIN, padding="SAME", zero_points=_ZERO_POINTS),
    ),
}
_WHOLE = replace(
    _PLAIN,
    padding="SAME",
    stride=(2, 2),
    bias=1,
    scales=_DIFFERENT,
    zero_points=_ZERO_POINTS,
    activation="RELU",
)


def _probes(op: str, types: str) -> Iterator[Probe]:
    plain = probe_name(op, types)
    variants = {**_VARIANTS, **(_QUANTIZED if types == "int8" else {})}
    for variant, (rule, shape) in variants.items():
        needs = [] if rule == VALUES else [plain]
        parts = [part for part in variant.split(", ") if part in variants and part != variant]
        needs += [probe_name(op, types, part) for part in parts]
        yield Probe(op, types, variant, partial(_build, op, types, shape), rule, needs)
    features = [
        probe_name(op, types, variant)
        for variant, (rule, _) in variants.items()
        if rule not in (VALUES, "values.accumulation")
    ]
    whole = partial(_build, op, types, _WHOLE)
    yield Probe(op, types, "all together", whole, VALUES, (plain, *features))


PROBES = tuple(
    probe
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D")
    for types in ("float32", "int8")
    for probe in _probes(op, types)
)
