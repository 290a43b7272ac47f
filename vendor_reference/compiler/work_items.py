"""How many work items run for an op, and in which groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op
from vendor_reference.custom_layers.custom_layer import TensorBinding, WorkSizes
from vendor_reference.custom_layers.layout import kernel_dims

_HINT = "Round the global size up, as in ((X+15)/16)*16, and let the kernel check its index."


def evaluate_work_sizes(sizes: WorkSizes, op: Op) -> tuple[Sequence[int], Sequence[int]]:
    """Global and local size; the local one is empty where the driver chooses.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a formula has no value, nothing would be written, or a local size does
        not divide.
    """
    dims = op_dims(op, sizes.of)
    if sizes.global_size:
        global_size = [formula.evaluate(dims) for formula in sizes.global_size]
    else:
        global_size = [prod(op.outputs[0].shape)]
    if not prod(global_size) and any(prod(tensor.shape) for tensor in op.outputs):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"global size {list(global_size)}: no work item would write the outputs",
            hint=f"B, F, Y, X of {sizes.of} are {', '.join(map(str, dims))}.",
        )
    local_size = [formula.evaluate(dims) for formula in sizes.local_size]
    if local_size and any(k == 0 or g % k for g, k in zip(global_size, local_size, strict=True)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"local size {local_size} does not divide global size {global_size}",
            hint=_HINT,
        )
    return global_size, local_size


def op_dims(op: Op, of: TensorBinding) -> Sequence[int]:
    """B, F, Y, X of an input or output.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the op has no such tensor.
    """
    tensors = op.outputs if of.is_output else op.inputs
    tensor = tensors[of.index] if of.index < len(tensors) else None
    if tensor is None:
        kind = "outputs" if of.is_output else "inputs"
        raise LiteRtError(Status.INVALID_ARGUMENT, f"{of} of an op that has {len(tensors)} {kind}")
    return kernel_dims(tensor.shape)
