"""Computes the number of work items of an op, the work group size, and the memory that work groups need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from litert.core.counts import index_range
from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.kernel_dims import kernel_dims
from litert.core.sizes import Shapes, Size, find_largest, multiply
from litert.core.status import Status
from vendor_reference.custom_layers.kernel_spec import InternalArgument, KernelSpec, LocalArgument
from vendor_reference.executable.executable import work_size


@dataclass(frozen=True, slots=True)
class OpShapes:
    """Shapes of an op's tensors: numbers, or values that are known only at run time.

    Attributes:
      inputs: Shapes of the inputs; None for omitted inputs.
    """

    inputs: tuple[tuple[Size, ...] | None, ...]
    outputs: tuple[tuple[Size, ...], ...]


def evaluate_work_sizes(spec: KernelSpec, shapes: OpShapes) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the global and local size for shapes that are numbers.

    The local size is empty if the driver chooses it.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a formula has no value, the number of work items is 0, or the local size
        does not divide the global size.
    """
    global_size, local_size = resolve_work_sizes(spec, shapes)
    if 0 in global_size and any(multiply(shape) for shape in shapes.outputs):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the global size is {list(global_size)}, so that no work item would write the outputs",
            hint="Correct the formulas of the work sizes in the layer's description. In them, B, F, Y, X of "
            f"{spec.sizes_of} are {', '.join(map(str, _dims(spec, shapes)))}.",
        )
    items, group = work_size(global_size, local_size or None, _no_shape, "")
    return items, group or ()


def resolve_work_sizes(spec: KernelSpec, shapes: OpShapes) -> tuple[Sequence[Size], Sequence[Size]]:
    """Returns the global and local size without checks, for shapes that may be known only at run time."""
    dims = _dims(spec, shapes)
    global_size: Sequence[Size] = _resolve_all("global", spec.global_size, dims, shapes)
    global_size = global_size or [multiply(shapes.outputs[0])]
    local_size = _resolve_all("local", spec.local_size[: len(global_size)], dims, shapes)
    if local_size:
        local_size = [*local_size, *[1] * (len(global_size) - len(local_size))]
    return global_size, local_size


def described_local_size(
    spec: KernelSpec, shapes: OpShapes, local_size: Sequence[Size]
) -> Sequence[Size]:
    """Returns those dimensions of the local size that the description gives."""
    described = len(spec.local_size)
    if described <= len(local_size):
        return local_size[: described or None]  # without a described size, the size of the launch
    surplus = spec.local_size[len(local_size) :]
    return [*local_size, *_resolve_all("local", surplus, _dims(spec, shapes), shapes)]


def _no_shape(index: int) -> Sequence[int]:
    raise AssertionError(f"shape {index} of numbers alone")


def memory_elements(
    argument: LocalArgument | InternalArgument,
    spec: KernelSpec,
    shapes: OpShapes,
    bounds: Shapes = _no_shape,
) -> int:
    """Returns the largest number of elements of local or internal memory, for all shapes within the bounds."""
    return find_largest(_resolve(argument.size, _dims(spec, shapes), shapes), bounds)


def local_bytes(
    argument: LocalArgument, spec: KernelSpec, shapes: OpShapes, bounds: Shapes = _no_shape
) -> int:
    """Returns the largest size of local memory in bytes, for all shapes within the bounds."""
    elements = memory_elements(argument, spec, shapes, bounds)
    return elements * argument.element_type.bits // 8


@lru_cache(maxsize=1024)
def read_formula(text: str) -> Formula:
    """Returns the parsed formula of a text; each text is parsed once."""
    return Formula(text)


def _resolve_all(
    what: str, texts: Sequence[str], dims: Sequence[Size], shapes: OpShapes
) -> Sequence[Size]:
    try:
        return [_resolve(text, dims, shapes) for text in texts]
    except LiteRtError as error:
        raise LiteRtError(
            error.status, f"{what} size: {error.what}", error.where, error.hint
        ) from error


def _resolve(text: str, dims: Sequence[Size], shapes: OpShapes) -> Size:
    return read_formula(text).resolve(dims, shapes.inputs, shapes.outputs)


def _dims(spec: KernelSpec, shapes: OpShapes) -> Sequence[Size]:
    """Returns B, F, Y, X of the tensor that the formulas refer to."""
    of = spec.sizes_of
    tensors = shapes.outputs if of.is_output else shapes.inputs
    shape = tensors[of.index] if of.index < len(tensors) else None
    if shape is None:
        kind = "output" if of.is_output else "input"
        omits = of.index < len(tensors)
        why = f"the op omits this {kind}" if omits else index_range(kind, len(tensors))
        what = f"formulas refer to {of}, which does not exist: {why}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what)
    if spec.counts_from_end:
        return _dims_from_end(shape, len(shapes.outputs[0]))
    return kernel_dims(shape)


def _dims_from_end(shape: Sequence[Size], output_rank: int) -> Sequence[Size]:
    """Returns the sizes B, F, Y, X of a tensor, counted from its last dimension.

    X is the last dimension, Y the dimension before X, then F, then B. Sizes beyond the rank of the output are 0.
    In a tensor of rank 4 or more, features are the last dimension in memory, but count as the dimension after the
    batch.
    """
    features_first = (shape[0], shape[-1], *shape[1:-1]) if len(shape) > 3 else shape
    counted = [*reversed(features_first), 1, 1, 1, 1][:4]
    x, y, f, b = (size if place < max(output_rank, 1) else 0 for place, size in enumerate(counted))
    return b, f, y, x
