"""Dimensions that only a run tells: the sizes that they are tried with, and what differs between the tries.

Stock's interpreter finds shapes for sizes that it is given, so what is unknown shows only by comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from compiler_plugin.transformations.shape_probe import ShapeProbe, Sizes
from compiler_plugin.transformations.stock_inference import SHAPE_TYPES, is_small
from litert.model.graph import Op, Tensor

if TYPE_CHECKING:
    from compiler_plugin.transformations.stock_model import Shape

_SHAPE_BYTES = 512  # integers of this size may be what another op's shape depends on


def _by_index(index: int, size: int) -> int:
    """Another size for each dimension, so that exchanged ones show; a batch is kept small."""
    tried = 32 * (index + 1) if index else 3
    return tried if tried != size else 2 * tried


def _all(tried: int) -> Sizes:
    return lambda index, size: tried if tried != size else 2 * tried


_TRIED: Sequence[Sizes] = (_by_index, _all(32), _all(2), _all(96), _all(256), _all(224), _all(299))
"""What unknown dimensions are tried with, until two are taken: many networks take only multiples of 32."""
_WANTED = 2


def make_probes(make: Callable[[Sizes], ShapeProbe], ops: Sequence[Op]) -> list[ShapeProbe]:
    """Tries ops with other sizes for unknown dimensions.

    Args:
      make: makes a probe with these sizes.
      ops: all of a graph that stock can be asked about, in execution order.

    Returns:
      The two that stock takes best.
    """
    tried: list[ShapeProbe] = []
    for sizes in _TRIED:
        probe = make(sizes)
        probe.infer(ops)
        tried.append(probe)
        if sum(not probe.refused for probe in tried) == _WANTED:
            break
    return sorted(tried, key=lambda probe: len(probe.refused))[:_WANTED]


def has_unknown(tensor: Tensor) -> bool:
    """Whether a tensor's shape has unknown dimensions."""
    return tensor.shape_signature is not None and -1 in tensor.shape_signature


def may_shape(tensor: Tensor) -> bool:
    """Whether it may be what another op's shape is computed from."""
    return tensor.element_type in SHAPE_TYPES and is_small(
        tensor.shape, tensor.element_type, _SHAPE_BYTES
    )


def combine(tensor: Tensor, found: Sequence[Shape | None]) -> tuple[Shape, Shape] | None:
    """Shape and signature of an op's result, from what probes have found; None where they do not say.

    Args:
      tensor: the result.
      found: the first with the sizes that the interpreter starts with.
    """
    shapes = [shape for shape in found if shape is not None]
    if not shapes or len({len(shape) for shape in shapes}) > 1:
        return None
    signature = tuple(
        sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)
    )
    if len(shapes) == 1 and len(found) > 1 and _depends_on_unknown(tensor):
        signature = (-1,) * len(signature)
    first = found[0]
    return tuple(
        1 if size < 0 else size for size in signature
    ) if first is None else first, signature


def _depends_on_unknown(tensor: Tensor) -> bool:
    op = tensor.producer
    return op is not None and any(
        t is not None and (has_unknown(t) or (t.producer is not None and may_shape(t)))
        for t in op.inputs
    )
