"""QUANTIZE, DEQUANTIZE, CAST: the same numbers as elements of another type."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.kernel_spec import ConstantArgument, KernelSpec
from vendor_reference.compiler.library.builtin_op import (
    Attributes,
    BuiltinOp,
    Call,
    is_scaled,
    quantization_attributes,
)
from vendor_reference.compiler.library.elementwise import Operand, Scale, elementwise_kernel
from vendor_reference.compiler.library.kernel_text import INTEGER_LIMITS
from vendor_reference.compiler.library.view import View

_E = ElementType
_FLOATS = (_E.FLOAT32, _E.FLOAT16)
_INTEGERS = (_E.INT8, _E.UINT8, _E.INT16, _E.INT32, _E.INT64)

_FLOAT_LIMITS = {
    **{t: (f"{low}.0f", f"{high}.0f") for t, (low, high) in INTEGER_LIMITS.items()},
    _E.INT32: ("-2147483648.0f", "2147483520.0f"),
    _E.INT64: ("-9223372036854775808.0f", "9223371487098961920.0f"),
}
"""The least and greatest numbers of float that integers can be."""

_CHANNEL_SCALES = "channel_scales"
_CHANNEL_ZERO_POINTS = "channel_zero_points"
_AXIS = "axis"


class _Conversion(BuiltinOp):
    """One operand and one result, of one shape."""

    is_layout_agnostic = True

    def __init__(
        self,
        name: str,
        ie_name: str,
        sources: Sequence[ElementType],
        results: Sequence[ElementType],
    ) -> None:
        self.name = name
        self.ie_name = ie_name
        self._sources = sources
        self._results = results

    def _refusal(self, op: Op) -> str:
        (source,), result = self.operands(op), op.outputs[0]
        if source.shape != result.shape:
            return f"it makes {result.type} of {source.type}"
        if source.element_type not in self._sources or result.element_type not in self._results:
            return f"it makes {result.element_type.name} of {source.element_type.name}"
        return ""


class _Quantization(_Conversion):
    """Between real numbers and integers, with one scale or one for each channel; or from integers to integers."""

    def _refusal(self, op: Op) -> str:
        if reason := super()._refusal(op):
            return reason
        tensors = [*self.operands(op), *op.outputs]
        integers = [t for t in tensors if t.element_type in INTEGER_LIMITS]
        for tensor in integers:
            if not is_scaled(tensor) and (len(integers) > 1 or not _has_channels(tensor)):
                return f"'{tensor.name}' has no scale that the library can use"
        return ""

    def attributes(self, op: Op) -> Attributes:
        tensors = [*self.operands(op), *op.outputs]
        for tensor in tensors:
            if tensor.element_type in INTEGER_LIMITS and _has_channels(tensor):
                quantization = tensor.quantization
                assert quantization is not None
                scales = tuple(float(scale) for scale in quantization.scale)
                zero_points = tuple(int(zero) for zero in quantization.zero_point)
                return {
                    _CHANNEL_SCALES: scales,
                    _CHANNEL_ZERO_POINTS: zero_points or (0,) * len(scales),
                    _AXIS: quantization.quantized_dimension,
                }
        return quantization_attributes(tensors)

    def kernel(self, call: Call) -> KernelSpec:
        source, result = call.inputs[0], call.outputs[0]
        operands, scale = [Operand(source, call.scale(0))], call.scale(1)
        expression = "a"
        if _AXIS in call.attributes:
            operands += [
                _for_channels(call, _CHANNEL_SCALES), _for_channels(call, _CHANNEL_ZERO_POINTS)
            ]  # fmt: skip
            is_source = source.element_type in INTEGER_LIMITS
            expression = "(a - c) * b" if is_source else "a / b + c"
            scale = None if is_source else Scale(1, 0)
        return elementwise_kernel(self.name, expression, "float", operands, Operand(result, scale))


class _Cast(_Conversion):
    """Real numbers towards zero, saturated; integers modulo their size; all but zero is true."""

    def kernel(self, call: Call) -> KernelSpec:
        source, result = call.inputs[0].element_type, call.outputs[0].element_type
        compute = "float" if source in _FLOATS else "long" if source is _E.INT64 else "int"
        if result is _E.BOOL:
            expression = "a != 0 ? 1 : a"
        elif compute == "float" and result in _FLOAT_LIMITS:
            low, high = _FLOAT_LIMITS[result]
            expression = (
                f"a < {low} ? {low} : a < {high} ? a : {high}"  # the last is for what is no number
            )
        else:
            expression = "a"
        if result is _E.FLOAT16:
            compute = "float"
        return elementwise_kernel(
            self.name, expression, compute, [Operand(call.inputs[0])], Operand(call.outputs[0])
        )


def _has_channels(tensor: Tensor) -> bool:
    """Whether a tensor has a scale for each index of a dimension."""
    quantization = tensor.quantization
    if quantization is None or quantization.blockwise or len(quantization.scale) < 2:
        return False
    axis, count = quantization.quantized_dimension, len(quantization.scale)
    return (
        0 <= axis < len(tensor.shape)
        and tensor.shape[axis] == count
        and len(quantization.zero_point) in (0, count)
        and all(0 < scale < float("inf") for scale in quantization.scale)
    )


def _for_channels(call: Call, name: str) -> Operand:
    """Numbers of channels as an operand, the same for all elements of a channel."""
    numbers, axis = call.attributes[name], call.attributes[_AXIS]
    assert isinstance(numbers, tuple) and isinstance(axis, int)
    shape = call.outputs[0].shape
    view = View(_E.FLOAT32, shape, tuple(int(dim == axis) for dim in range(len(shape))))
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    return Operand(view, argument=ConstantArgument(_E.FLOAT32, data))


OPS = (
    _Quantization("QUANTIZE", "Quantize", (*_FLOATS, *INTEGER_LIMITS), tuple(INTEGER_LIMITS)),
    _Quantization("DEQUANTIZE", "Dequantize", (_E.FLOAT16, *INTEGER_LIMITS), _FLOATS),
    _Cast("CAST", "Cast", (*_FLOATS, *_INTEGERS, _E.BOOL), (*_FLOATS, *_INTEGERS, _E.BOOL)),
)
