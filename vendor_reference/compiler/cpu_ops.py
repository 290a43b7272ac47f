"""Ops of a model as libraries of CPU layers are told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert.core.tensor_type import RankedTensorType
from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor
from vendor_reference.executable.cpu_op import CpuOp, CpuOperand


def make_cpu_op(op: Op, shapes: Mapping[Tensor, Sequence[int]]) -> CpuOp:
    """What a library is told of an op; it says itself which of its layers that is.

    Args:
      op: of the model.
      shapes: the largest of its tensors; 0 is told for a dimension that is not there.
    """
    inputs = tuple(None if tensor is None else _operand(tensor, shapes) for tensor in op.inputs)
    outputs = tuple(_operand(tensor, shapes) for tensor in op.outputs)
    return CpuOp("", op.outputs[0].name, inputs, outputs, _options(op))


def _operand(tensor: Tensor, shapes: Mapping[Tensor, Sequence[int]]) -> CpuOperand:
    shape = shapes.get(tensor) or [max(d, 0) for d in tensor.type.shape]
    tensor_type = RankedTensorType.of(tensor.element_type, tuple(shape))
    producer = tensor.producer
    is_constant = tensor.is_constant or (
        producer is not None and producer.name == "DEQUANTIZE" and not producer.is_custom
        and producer.inputs[0] is not None and producer.inputs[0].is_constant
    )  # fmt: skip
    quantization = tensor.quantization
    if quantization is None or quantization.blockwise or not quantization.scale:
        return CpuOperand(tensor_type, is_constant)
    scales = tuple(float(scale) for scale in quantization.scale)
    zero_points = tuple(int(z) for z in quantization.zero_point) or (0,) * len(scales)
    dimension = quantization.quantized_dimension if len(scales) > 1 else 0
    return CpuOperand(tensor_type, is_constant, scales, zero_points, dimension)


def _options(op: Op) -> bytes:
    """A custom op's options as they are; those of a builtin op as a FlexBuffer map of the schema's names."""
    if op.is_custom:
        return bytes(op.custom_options) if op.custom_options else b""
    from flatbuffers import flexbuffers  # type: ignore[import-untyped]  # here: it imports NumPy

    return bytes(flexbuffers.Dumps(dict(read_builtin_options(op))))
