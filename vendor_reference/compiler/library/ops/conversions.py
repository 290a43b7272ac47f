"""QUANTIZE, DEQUANTIZE, CAST: ops that convert numbers to elements of another type."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.library.elementwise import (
    Formula,
    KernelOperand,
    cast,
)
from vendor_reference.compiler.library.library_op import (
    FLOATS,
    Attributes,
    ElementwiseOp,
    PlacedOp,
    type_names,
)
from vendor_reference.compiler.library.steps import INTEGER_LIMITS, Scale
from vendor_reference.compiler.library.views import View
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.kernel_spec import ConstantArgument

_E = ElementType

_CHANNEL_SCALES = "channel_scales"
_CHANNEL_ZERO_POINTS = "channel_zero_points"
_AXIS = "axis"


class _Conversion(ElementwiseOp):
    """An op with one operand and one result of the same shape."""

    def __init__(
        self,
        name: str,
        ie_name: str,
        sources: Sequence[ElementType],
        results: Sequence[ElementType],
    ) -> None:
        self.name = name
        self.ie_name = ie_name
        self.types = tuple(dict.fromkeys((*sources, *results)))
        self._sources = sources
        self._results = results

    def types_text(self) -> str:
        if set(self._sources) == set(self._results):
            return type_names(self.types)
        return f"operand: {type_names(self._sources)}; result: {type_names(self._results)}"

    def mismatch(self, call: PlacedOp) -> str:
        if call.inputs[0].shape != call.result.shape:
            return call.shape_mismatch()
        source, result = call.inputs[0].element_type, call.result.element_type
        if source not in self._sources or result not in self._results:
            return f"the library cannot make {result.name} from {source.name}"
        return ""


class _Quantization(_Conversion):
    """Converts between real numbers and quantized integers, or between quantized integers.

    There is one scale, or a scale for each channel.
    """

    constraints = (
        "quantized tensors must have one scale, or one scale for each index along one dimension",
    )

    def attributes(self, op: Op) -> Attributes:
        for tensor in (*self.operands(op), *op.outputs):
            quantization = tensor.quantization if tensor.element_type in INTEGER_LIMITS else None
            if quantization is not None and len(quantization.scale) > 1:
                zero_points = tuple(int(zero) for zero in quantization.zero_point)
                return {
                    _CHANNEL_SCALES: tuple(float(scale) for scale in quantization.scale),
                    _CHANNEL_ZERO_POINTS: zero_points or (0,) * len(quantization.scale),
                    _AXIS: quantization.quantized_dimension,
                }
        return super().attributes(op)

    def mismatch(self, call: PlacedOp) -> str:
        if reason := super().mismatch(call):
            return reason
        integers = [i for i, v in enumerate(call.tensors) if v.element_type in INTEGER_LIMITS]
        if _AXIS in call.attributes and len(integers) == 1:
            return _channel_mismatch(call)
        is_scaled = all(call.scale(index) for index in integers)
        return (
            "" if is_scaled else "the integers of a tensor have no scale that the library can use"
        )

    def formula(self, call: PlacedOp) -> Formula:
        source, operands = call.inputs[0], [KernelOperand(call.inputs[0], call.scale(0))]
        expression, scale = "a", call.scale(-1)
        if _AXIS in call.attributes:
            operands += [_for_channels(call, n) for n in (_CHANNEL_SCALES, _CHANNEL_ZERO_POINTS)]
            is_source = source.element_type in INTEGER_LIMITS
            expression = "(float(a) - c) * b" if is_source else "a / b + c"
            scale = None if is_source else Scale(1, 0)
        return Formula(expression, operands, KernelOperand(call.result, scale))


class _Cast(_Conversion):
    """Rounds real numbers towards zero and clamps them; wraps integers around.

    All numbers except zero become true.
    """

    def attributes(self, op: Op) -> Attributes:
        return {}

    def formula(self, call: PlacedOp) -> Formula:
        return cast(call.inputs[0], call.result)


def _channel_mismatch(call: PlacedOp) -> str:
    """Returns why there is not one scale for each index of a dimension; "" if there is."""
    axis, scales = call.integer(_AXIS), call.numbers(_CHANNEL_SCALES)
    shape, zero_points = call.result.shape, call.numbers(_CHANNEL_ZERO_POINTS)
    is_there = axis is not None and 0 <= axis < len(shape) and shape[axis] == len(scales)
    is_usable = all(scale > 0 and isfinite(scale) for scale in scales)
    if is_there and is_usable and len(zero_points) == len(scales):
        return ""
    return (
        f"the library cannot use {len(scales)} scales along dimension {axis} of shape {list(shape)}"
    )


def _for_channels(call: PlacedOp, name: str) -> KernelOperand:
    """Returns the channels' numbers as an operand that is the same for all elements of a channel."""
    numbers, axis, shape = call.numbers(name), call.integer(_AXIS), call.result.shape
    view = View(_E.FLOAT32, shape, tuple(int(dim == axis) for dim in range(len(shape))))
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    return KernelOperand(view, argument=ConstantArgument(_E.FLOAT32, data))


OPS = (
    _Quantization("QUANTIZE", "Quantize", (*FLOATS, *INTEGER_LIMITS), tuple(INTEGER_LIMITS)),
    _Quantization("DEQUANTIZE", "Dequantize", (_E.FLOAT16, *INTEGER_LIMITS), FLOATS),
    _Cast("CAST", "Cast", tuple(CL_TYPES), tuple(CL_TYPES)),
)
