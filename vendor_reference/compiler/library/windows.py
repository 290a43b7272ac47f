"""Sliding-window ops on images: their attributes, and the fields of their firmware instructions.

Images are `[batches, height, width, channels]`. Padding is a number of rows and columns, so that a PAD before an
op can be fused into the op; `auto_pad = "SAME"` adds padding that depends on the image's size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litert.model.graph import Op
from litert.model.schema_types import enum_name
from vendor_reference.compiler.library.library_op import (
    MOST_ELEMENTS,
    Attributes,
    PlacedOp,
    Shape,
    activation_of,
    integers_of,
    option,
)
from vendor_reference.compiler.library.traced_size import (
    quotient_towards_zero,
    range_of,
    smaller,
)
from vendor_reference.compiler.library.views import View
from vendor_reference.firmware.instructions import FieldValue

ACTIVATION, STRIDES, DILATIONS = "activation", "strides", "dilations"
PADS_BEGIN, PADS_END = "pads_begin", "pads_end"
_NUMBERS = (STRIDES, DILATIONS, PADS_BEGIN, PADS_END)
AUTO_PAD, SAME = "auto_pad", "SAME"
"""Attributes of windows.

Windows start at every `strides`-th pixel of the padded image; `SAME` adds the padding that the last windows need.
"""
PRELU = "PRELU"
"""Activation with a slope for each channel; the last operand holds the slopes."""

_GREATEST = 3.4028234663852886e38
_RANGES = {
    "NONE": (-_GREATEST, _GREATEST),
    "RELU": (0.0, _GREATEST),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""Limits of activations.

Kernels clamp all values, even infinity, as stock LiteRT's reference kernels of ops with windows do.
"""
_FUNCTIONS = {"TANH": 1, "LOGISTIC": 2, "HARD_SWISH": 3, PRELU: 4}
"""Numbers of the activations in core.cl."""

ACTIVATIONS = (*_RANGES, "TANH", "LOGISTIC", "HARD_SWISH")
"""Activations that are supported by every instruction that has an activation."""


def window_activation(op: Op) -> str:
    """Returns the fused activation that an op computes.

    As in stock LiteRT, ops with windows ignore TANH and SIGN_BIT.
    """
    name = activation_of(op)
    return name if name in _RANGES else "NONE"


def activation_fields(name: str) -> Mapping[str, FieldValue]:
    """Returns the fields for a fused activation: the activation's number, and the limits to which it clamps."""
    low, high = _RANGES.get(name, _RANGES["NONE"])
    return {"activation": _FUNCTIONS.get(name, 0), "low": low, "high": high}


def window_attributes(op: Op) -> Attributes:
    """Returns the attributes for strides, dilations, padding and activation of an op with windows on input 0."""
    is_same = enum_name("Padding", int(option(op, "padding"))) == SAME
    return {
        STRIDES: (int(option(op, "stride_h")), int(option(op, "stride_w"))),
        DILATIONS: _dilations(op),
        PADS_BEGIN: (0, 0),
        PADS_END: (0, 0),
        **({AUTO_PAD: SAME} if is_same else {}),
        ACTIVATION: window_activation(op),
    }


class _Windows(NamedTuple):
    """The windows along one dimension of an image.

    Attributes:
      reach: Pixels from the first to the last of a window.
      begin, end: Padding before and after the image.
    """

    reach: int
    stride: int
    begin: int
    end: int
    number: int


def _windows(image: Shape, size: Sequence[int], attributes: Attributes) -> Sequence[_Windows]:
    """Returns the windows along an image's height and width, whose sizes may be traced.

    `size` is the size of a window.
    """
    numbers = (integers_of(attributes, name) for name in _NUMBERS)
    made = []
    for pixels, taps, stride, dilation, begin, end in zip(image[1:3], size, *numbers, strict=True):
        reach, padded = (taps - 1) * dilation + 1, pixels + begin + end
        if attributes.get(AUTO_PAD) == SAME:
            added = reach - 1 - smaller((padded - 1) % stride, reach - 1)
            begin, end = begin + added // 2, end + (added + 1) // 2
            number = (padded + stride - 1) // stride
        else:  # as stock LiteRT, which makes an empty image if no window fits
            number = quotient_towards_zero(padded + stride - reach, stride)
        made.append(_Windows(reach, stride, begin, end, number))
    return made


def windows_result(
    image: Shape, size: Sequence[int], channels: int, attributes: Attributes
) -> Sequence[Shape] | None:
    """Returns the shape of the result, which has a pixel for each window.

    Returns None if the windows do not fit the image.
    """
    if len(image) != 4 or _numbers_mismatch(size, attributes):
        return None
    counts = [windows.number for windows in _windows(image, size, attributes)]
    return [(image[0], *counts, channels)]


def image_mismatch(call: PlacedOp) -> str:
    """Returns why result 0 and operand 0 have different numbers of images; "" if the numbers are equal."""
    x, y = call.inputs[0], call.result
    if len(x.shape) != 4 or len(y.shape) != 4 or x.shape[0] != y.shape[0]:
        return call.shape_mismatch()
    return ""


def window_mismatch(
    call: PlacedOp, size: Sequence[int], activations: Sequence[str] = ACTIVATIONS
) -> str:
    """Returns why windows of the given size on operand 0 do not give the shape of result 0; "" if they do."""
    if reason := image_mismatch(call):
        return reason
    x, y = call.inputs[0].shape, call.result.shape
    if reason := _numbers_mismatch(size, call.attributes):
        return reason
    for windows, count in zip(_windows(x, size, call.attributes), y[1:3], strict=True):
        reach, stride, begin, end = windows[:4]
        if not 0 <= begin < reach or not 0 <= end < reach + stride:
            return (
                f"the padding of {call.integers(PADS_BEGIN)} and {call.integers(PADS_END)} does "
                "not fit the windows"
            )
        if range_of(count)[1] < 1 or count != windows.number:
            return call.shape_mismatch()
        extent = range_of(count * stride + reach + begin + end)[1]
        if extent > MOST_ELEMENTS:
            return (
                f"the windows extend over {extent} pixels, but at most {MOST_ELEMENTS} are possible"
            )
    activation = call.attributes.get(ACTIVATION)
    return "" if activation in activations else f"fused activation {activation} is not supported"


def _numbers_mismatch(size: Sequence[int], attributes: Attributes) -> str:
    """Returns why attributes describe no windows of such a size; "" if they do."""
    strides, dilations, *_ = numbers = [integers_of(attributes, name) for name in _NUMBERS]
    if any(len(pair) != 2 for pair in (size, *numbers)) or min(*strides, *dilations, *size) < 1:
        return f"windows of size {list(size)} with strides {strides} and dilations {dilations} are not possible"
    is_known = attributes.get(AUTO_PAD, SAME) == SAME
    return "" if is_known else f"attribute auto_pad is {attributes[AUTO_PAD]}, expected SAME"


def padding_before(call: PlacedOp, size: Sequence[int]) -> Sequence[int]:
    """Returns how many padding rows an image needs above it, and how many padding columns to its left."""
    return [w.begin for w in _windows(call.inputs[0].shape, size, call.attributes)]


def window_fields(call: PlacedOp, before: Sequence[int]) -> Mapping[str, FieldValue]:
    """Returns the fields of instructions with windows, except the window sizes.

    `before` is the leading padding.
    """
    (stride_height, stride_width), (top, left) = call.integers(STRIDES), before
    return {
        "stride_height": stride_height,
        "stride_width": stride_width,
        "top": top,
        "left": left,
        **activation_fields(str(call.attributes[ACTIVATION])),
        **image_fields(call.inputs[0], call.result),
    }


def image_fields(x: View, y: View) -> Mapping[str, FieldValue]:
    """Returns the fields for the sizes and strides of an operand and a result that are images."""
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
    """Returns the dilations of a convolution; pools have none."""
    if "POOL" in op.name:
        return 1, 1
    return int(option(op, "dilation_h_factor")), int(option(op, "dilation_w_factor"))
