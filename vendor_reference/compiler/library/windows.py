"""Sliding-window ops on images: their attributes, and the fields of their firmware instructions.

Images are `[batches, height, width, channels]`. Padding is written as rows and columns, so that an op behind a PAD
can take that in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert.model.graph import Op
from litert.model.schema_types import enum_name
from vendor_reference.compiler.library.library_op import (
    Attributes,
    PlacedOp,
    activation_of,
    option,
)
from vendor_reference.compiler.library.views import View
from vendor_reference.firmware.instructions import FieldValue

ACTIVATION, STRIDES, DILATIONS = "activation", "strides", "dilations"
PADS_BEGIN, PADS_END = "pads_begin", "pads_end"
PRELU = "PRELU"
"""An activation with a slope for each channel, the last operand."""

_GREATEST = 3.4028234663852886e38
_RANGES = {
    "NONE": (-_GREATEST, _GREATEST),
    "RELU": (0.0, _GREATEST),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""Stock's plain kernels of ops with windows clamp everything, infinity too."""
_FUNCTIONS = {"TANH": 1, "LOGISTIC": 2, "HARD_SWISH": 3, PRELU: 4}
"""Of core.cl."""

ACTIVATIONS = (*_RANGES, "TANH", "LOGISTIC", "HARD_SWISH")
"""What each instruction that has an activation can do."""


def window_activation(op: Op) -> str:
    """The fused activation that counts: stock's ops with windows leave out TANH and SIGN_BIT."""
    name = activation_of(op)
    return name if name in _RANGES else "NONE"


def activation_fields(name: str) -> Mapping[str, FieldValue]:
    """The fields for a fused activation: its code, and the limits that it clamps to."""
    low, high = _RANGES.get(name, _RANGES["NONE"])
    return {"activation": _FUNCTIONS.get(name, 0), "low": low, "high": high}


def window_attributes(op: Op, size: Sequence[int]) -> Attributes:
    """Strides, dilations, padding and activation of an op whose input 0 is seen through windows of such a size."""
    strides = int(option(op, "stride_h")), int(option(op, "stride_w"))
    dilations = _dilations(op)
    inside = op.inputs[0]
    assert inside is not None
    begins, ends = [], []
    is_same = enum_name("Padding", int(option(op, "padding"))) == "SAME"
    for dim in (0, 1):
        reach = (size[dim] - 1) * dilations[dim] + 1
        count = -(-inside.shape[1 + dim] // max(strides[dim], 1))
        total = max((count - 1) * strides[dim] + reach - inside.shape[1 + dim], 0) if is_same else 0
        begins.append(total // 2)
        ends.append(total - total // 2)
    return {
        STRIDES: strides,
        DILATIONS: dilations,
        PADS_BEGIN: tuple(begins),
        PADS_END: tuple(ends),
        ACTIVATION: window_activation(op),
    }


def image_mismatch(call: PlacedOp) -> str:
    """Why result 0 is not as many images as operand 0, of any sizes; "" where it is."""
    x, y = call.inputs[0], call.result
    if len(x.shape) != 4 or len(y.shape) != 4 or x.shape[0] != y.shape[0]:
        return call.shape_mismatch()
    largest = max(x.num_elements, y.num_elements)
    return "" if largest < 2**32 else f"its tensors have up to {largest} elements"


def window_mismatch(
    call: PlacedOp, size: Sequence[int], activations: Sequence[str] = ACTIVATIONS
) -> str:
    """Why result 0 is not what windows of such a size see of operand 0; "" where it is."""
    if reason := image_mismatch(call):
        return reason
    x, y = call.inputs[0].shape, call.result.shape
    numbers = [call.integers(name) for name in (STRIDES, DILATIONS, PADS_BEGIN, PADS_END)]
    if any(len(pair) != 2 for pair in numbers) or min(*numbers[0], *numbers[1], *size) < 1:
        return f"its windows are {list(size)}, with strides {numbers[0]} and dilations {numbers[1]}"
    for dim, stride, dilation, begin, end in zip((0, 1), *numbers, strict=True):
        reach = (size[dim] - 1) * dilation + 1
        if not 0 <= begin < reach or not 0 <= end < reach + stride:
            return f"its padding is {numbers[2]} and {numbers[3]}"
        count = (x[1 + dim] + begin + end - reach) // stride + 1
        if count < 1 or y[1 + dim] != count:
            return call.shape_mismatch()
    activation = call.attributes.get(ACTIVATION)
    return "" if activation in activations else f"its activation is {activation}"


def window_fields(call: PlacedOp) -> Mapping[str, FieldValue]:
    """The fields of instructions with windows, but for the windows' sizes."""
    (stride_height, stride_width), (top, left) = call.integers(STRIDES), call.integers(PADS_BEGIN)
    return {
        "stride_height": stride_height,
        "stride_width": stride_width,
        "top": top,
        "left": left,
        **activation_fields(str(call.attributes[ACTIVATION])),
        **image_fields(call.inputs[0], call.result),
    }


def image_fields(x: View, y: View) -> Mapping[str, FieldValue]:
    """The fields of instructions that make an image of an image."""
    fields: dict[str, FieldValue] = {
        "batches": y.shape[0],
        "input_height": x.shape[1],
        "input_width": x.shape[2],
        "result_height": y.shape[1],
        "result_width": y.shape[2],
        "channels": y.shape[3],
    }
    for name, view in (("input", x), ("result", y)):
        assert view.strides[3] == 1 or view.shape[3] == 1
        parts = zip(("batch", "row", "pixel"), view.strides, strict=False)
        fields |= {f"{name}_first": view.offset, **{f"{name}_{p}": s for p, s in parts}}
    return fields


def _dilations(op: Op) -> tuple[int, int]:
    """Of a convolution; pools have none."""
    if "POOL" in op.name:
        return 1, 1
    return int(option(op, "dilation_h_factor")), int(option(op, "dilation_w_factor"))
