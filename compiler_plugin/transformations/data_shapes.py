"""What is known of shapes that depend on data, before a run: mostly the rank.

Stock leaves the results of some ops without a shape until they run. A new op's results have no shape from the file
either: here are the rules of TFLite's kernels for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from litert.model.graph import Op, Tensor

if TYPE_CHECKING:
    from compiler_plugin.transformations.stock_model import Shape

    ShapeOf = Callable[[Tensor], Shape | None]

_RANK_IS_LENGTH_OF = {
    "BROADCAST_TO": 1,
    "CONV_3D_TRANSPOSE": 0,
    "FILL": 0,
    "RANDOM_STANDARD_NORMAL": 0,
    "RANDOM_UNIFORM": 0,
    "RESHAPE": 1,
    "SCATTER_ND": 2,
    "SLICE": 1,
    "SPARSE_TO_DENSE": 1,
    "TRANSPOSE_CONV": 0,
}
"""The input that is a shape, or has as many elements as one."""

_SAME_RANK = frozenset({
    "BATCH_TO_SPACE_ND", "CUMSUM", "MIRROR_PAD", "PAD", "PADV2", "RFFT2D", "SPACE_TO_BATCH_ND", "TILE",
    "TRANSPOSE",
})  # fmt: skip

_OF_RANK_ONE = frozenset({
    "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "RANGE", "UNIQUE"
})  # fmt: skip


def find_data_shape(op: Op, index: int, shape_of: ShapeOf) -> Shape | None:
    """What is known of the shape of an op's output, with -1 for dimensions that only a run tells.

    Args:
      op: a builtin op that stock gives no shape before a run.
      index: of the output.
      shape_of: gives the shapes of its inputs, with -1 too.

    Returns:
      None where not even the rank is known.
    """
    name = op.name
    shapes = [None if tensor is None else shape_of(tensor) for tensor in op.inputs]
    first = shapes[0] if shapes else None
    if name in _OF_RANK_ONE:
        return (-1,)
    if name in _RANK_IS_LENGTH_OF:
        length = _at(shapes, _RANK_IS_LENGTH_OF[name])
        return (
            (-1,) * length[0]
            if length is not None and len(length) == 1 and length[0] >= 0
            else None
        )
    if first is None:
        return None
    if name == "WHERE":
        return -1, len(first)
    if name in _SAME_RANK:
        return (-1,) * len(first)
    if name in ("SEGMENT_SUM", "UNSORTED_SEGMENT_SUM"):
        return (-1, *first[1:])
    if name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR") and len(first) == 4:
        return first[0], -1, -1, first[3]
    if name == "TOPK_V2" and first:
        return (*first[:-1], -1)
    if name == "MULTINOMIAL" and len(first) == 2:
        return first[0], -1
    if name in ("ONE_HOT", "EXPAND_DIMS"):
        return (-1,) * (len(first) + 1)
    return None


def _at(shapes: list[Shape | None], index: int) -> Shape | None:
    return shapes[index] if index < len(shapes) else None
