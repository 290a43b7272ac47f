"""How many work items run for an op, in which groups, and how much memory they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.kernel_spec import (
    InternalArgument,
    KernelSpec,
    LocalArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.formula import Formula
from vendor_reference.custom_layers.layout import kernel_dims

_HINT = "Round the global size up, as in ((X+15)/16)*16, and let the kernel check its index."


@dataclass(frozen=True, slots=True)
class OpShapes:
    """Shapes of an op's tensors.

    Attributes:
      inputs: None for those that are left out.
    """

    inputs: tuple[tuple[int, ...] | None, ...]
    outputs: tuple[tuple[int, ...], ...]


def evaluate_work_sizes(spec: KernelSpec, shapes: OpShapes) -> tuple[Sequence[int], Sequence[int]]:
    """Global and local size; the local one is empty where the driver chooses.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a formula has no value, nothing would be written, or a local size does
        not divide.
    """
    dims = _dims(spec, shapes)
    if spec.global_size:
        global_size = [_evaluate(text, dims, shapes) for text in spec.global_size]
    else:
        global_size = [prod(shapes.outputs[0])]
    if not prod(global_size) and any(prod(shape) for shape in shapes.outputs):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"global size {list(global_size)}: no work item would write the outputs",
            hint=f"B, F, Y, X of {_name(spec.sizes_of)} are {', '.join(map(str, dims))}.",
        )
    local_size = [_evaluate(text, dims, shapes) for text in spec.local_size]
    if local_size and any(k == 0 or g % k for g, k in zip(global_size, local_size, strict=True)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"local size {local_size} does not divide global size {global_size}",
            hint=_HINT,
        )
    return global_size, local_size


def memory_elements(
    argument: LocalArgument | InternalArgument, spec: KernelSpec, shapes: OpShapes
) -> int:
    """Elements of local or internal memory.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the formula has no value.
    """
    return _evaluate(argument.size, _dims(spec, shapes), shapes)


def memory_bytes(
    argument: LocalArgument | InternalArgument, spec: KernelSpec, shapes: OpShapes
) -> int:
    """The same in bytes."""
    return memory_elements(argument, spec, shapes) * argument.element_type.bits // 8


@lru_cache(maxsize=1024)
def _formula(text: str) -> Formula:
    return Formula(text)


def _evaluate(text: str, dims: Sequence[int], shapes: OpShapes) -> int:
    return _formula(text).evaluate(dims, shapes.inputs, shapes.outputs)


def _dims(spec: KernelSpec, shapes: OpShapes) -> Sequence[int]:
    """B, F, Y, X of the tensor that the formulas are about."""
    of = spec.sizes_of
    tensors = shapes.outputs if of.is_output else shapes.inputs
    shape = tensors[of.index] if of.index < len(tensors) else None
    if shape is None:
        kind = "outputs" if of.is_output else "inputs"
        what = f"{_name(of)} of an op that has {len(tensors)} {kind}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what)
    if spec.counts_from_end:
        return _dims_from_end(shape, len(shapes.outputs[0]))
    return kernel_dims(shape)


def _dims_from_end(shape: Sequence[int], output_rank: int) -> Sequence[int]:
    """X is the last dimension, Y the one before it, F and B those before; 0 beyond the output's rank.

    Of a tensor of rank 4 and above, the features, which are last here, count as standing behind the batch.
    """
    features_first = (shape[0], shape[-1], *shape[1:-1]) if len(shape) > 3 else shape
    counted = [*reversed(features_first), 1, 1, 1, 1][:4]
    x, y, f, b = (size if place < max(output_rank, 1) else 0 for place, size in enumerate(counted))
    return b, f, y, x


def _name(port: TensorArgument) -> str:
    return f"{'output' if port.is_output else 'input'} {port.index}"
