"""Replaces DEQUANTIZE ops that read constants by float32 constants; a host runs this transformation.

Some hosts put only successive ops into one partition. If other ops are between a DEQUANTIZE and the op that reads
its result, such a host puts the two into different partitions. As a consequence, the CPU would dequantize the
weights in each run, and a layer that requires constant weights could not be used for the op. Only constants for
ops with assets are dequantized, because a dequantized constant is larger.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from compiler_plugin.native.exported.host_context import HostContext
from compiler_plugin.native.exported.stock_model import read_op, read_reader_names
from litert.abi.definitions import ffi
from litert.core.element_type import ElementType
from litert.core.quantization import QuantizationKind
from litert.model.builtin_options import BUILTIN_NUMBERS
from litert.model.graph import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "constants of custom ops are dequantized"

_DEQUANTIZE = BUILTIN_NUMBERS["DEQUANTIZE"]
_TYPES = (ElementType.FLOAT16, ElementType.INT8, ElementType.UINT8, ElementType.INT16)


def dequantize_for(
    context: HostContext, op_names: Collection[str], builder: Any, handle: Any
) -> bool:
    """Replaces a DEQUANTIZE op that reads a constant by the dequantized constant; returns whether it did so.

    Args:
      context: Compiler context of the host.
      op_names: Custom codes of the ops whose inputs become constants.
      builder: The `LiteRtBuilder` that records the change.
      handle: Handle (`LiteRtOp`) of the op to check, which may be an op of any kind.
    """
    if context.answer("get_op_code", handle, "int32_t") != _DEQUANTIZE:
        return False
    source = read_op(context, handle).inputs[0]
    assert source is not None
    (result,) = context.items("LiteRtTensor", "get_num_op_outputs", "get_op_output", handle)
    if not _is_known(source) or read_reader_names(context, result).isdisjoint(op_names):
        return False
    data = ffi.from_buffer("uint8_t[]", _dequantize(source))
    context.call("build_weights", builder, data, len(data), result, ffi.new("LiteRtWeights*"))
    context.call("erase_op", builder, handle)
    return True


def _is_known(tensor: Tensor) -> bool:
    """Returns whether a tensor is a complete constant with an element type that NumPy has."""
    return (
        tensor.is_constant
        and tensor.element_type in _TYPES
        and tensor.blockwise is None
        and len(tensor.data) == tensor.type.size_bytes
    )


def _dequantize(tensor: Tensor) -> bytes:
    import numpy as np  # here, since most models have none to be replaced

    values = np.frombuffer(tensor.data, tensor.element_type.numpy_dtype).reshape(tensor.shape)
    quantization = tensor.quantization
    if quantization is None:
        return values.astype(np.float32).tobytes()
    scale: NDArray[np.float64] = np.asarray(quantization.scale, np.float32).astype(np.float64)
    zero_point: NDArray[np.int64] = np.asarray(quantization.zero_point, np.int64)
    if quantization.kind is QuantizationKind.PER_CHANNEL:
        along = [1] * values.ndim
        along[quantization.quantized_dimension] = -1
        scale, zero_point = scale.reshape(along), zero_point.reshape(along)
    return (scale * (values.astype(np.int64) - zero_point)).astype(np.float32).tobytes()
