"""Runs a signature on arrays: they are bound where they lie, and the outputs are new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dispatch.tensor_buffer import ALIGNMENT, TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.runtime.host_memory import CPU_OVERREAD
from litert.runtime.loaded_model import LoadedModel
from litert.runtime.signature import Argument, SignatureRunner

Array = np.ndarray[Any, Any]


def run_arrays(
    model: LoadedModel, signature: SignatureRunner, inputs: Mapping[str, Any]
) -> dict[str, Array]:
    """Runs a signature.

    Args:
      model: that the signature is of.
      signature: what is run.
      inputs: arrays, or what becomes one, by name.

    Returns:
      Arrays by name, which belong to the caller.

    Raises:
      LiteRtError: NOT_FOUND or MISSING_INPUT_TENSOR, for a name too many or too few; INVALID_ARGUMENT, for an
        array of the wrong type or shape; as `SignatureRunner.run`.
    """
    names = {argument.name for argument in signature.inputs}
    for name in inputs:
        if name not in names:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"no input '{name}', only {', '.join(sorted(names))}",
                f"signature '{signature.key}'",
            )
    with model.lock:
        given = [_input_buffer(signature, argument, inputs) for argument in signature.inputs]
        signature.fit(given)
        if signature.has_dynamic_tensors:
            model.run(signature, given, [None] * len(signature.outputs))
            return {a.name: signature.read_output(a) for a in signature.outputs}
        made = [_new_array(signature.tensor_type(argument)) for argument in signature.outputs]
        model.run(signature, given, [buffer for _, buffer in made])
    return {a.name: array for a, (array, _) in zip(signature.outputs, made, strict=True)}


def _input_buffer(
    signature: SignatureRunner, argument: Argument, inputs: Mapping[str, Any]
) -> TensorBuffer:
    value = inputs.get(argument.name)
    if value is None:
        raise LiteRtError(Status.MISSING_INPUT_TENSOR, "no array for it", signature.where(argument))
    element_type = signature.tensor_type(argument).element_type
    dtype = element_type.numpy_dtype
    if not isinstance(value, np.ndarray):
        try:
            value = np.asarray(value, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"no array of {dtype.name}: {error}",
                signature.where(argument),
            ) from None
    if value.dtype != dtype:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"an array of {value.dtype}, where the model has {dtype.name}",
            signature.where(argument),
            f"Convert it with array.astype({dtype.name!r}).",
        )
    array = value if value.flags.c_contiguous else np.ascontiguousarray(value)
    address: int = array.__array_interface__["data"][0]  # faster than array.ctypes
    return TensorBuffer(
        RankedTensorType.of(element_type, array.shape), address, array.nbytes, array
    )


def _new_array(tensor_type: RankedTensorType) -> tuple[Array, TensorBuffer]:
    """An array with all the memory that a kernel wants of it, and the buffer over it."""
    size = tensor_type.size_bytes
    memory = np.empty(size + ALIGNMENT + CPU_OVERREAD, np.uint8)
    address: int = memory.__array_interface__["data"][0]
    start = -address % ALIGNMENT
    array = memory[start : start + size].view(tensor_type.element_type.numpy_dtype)
    buffer = TensorBuffer(tensor_type, address + start, size + CPU_OVERREAD, memory)
    return array.reshape(tensor_type.shape), buffer
