"""The layouts NHWC and NCHW, and how ops work in graphs of each layout.

Images in TFLite are `[N, H, W, C]` or `[N, D, H, W, C]`. A graph in NCHW (`graph.layout`) has the same kinds of
ops and tensors as in NHWC, with these differences:

- Ops on images work channel-first. That is, images of rank 4 are `[N, C, H, W]`, and images of rank 5 are
  `[N, C, D, H, W]`. Such ops are convolutions, poolings, RESIZE_*, DEPTH_TO_SPACE, and all other ops in
  `rules/images.py`. The options and biases of these ops, the `[H, W]` of RESIZE_*, and the blocks and paddings of
  SPACE_TO_BATCH_ND do not change. In the `output_shape` of a TRANSPOSE_CONV, the dimensions have the same order as
  in the image that the op writes.
- The dimensions of a filter are output channels, input channels, then spatial dimensions: `[O, I, H, W]` of
  CONV_2D and TRANSPOSE_CONV, `[O, I, D, H, W]` of CONV_3D and CONV_3D_TRANSPOSE, and `[O, 1, H, W]` of
  DEPTHWISE_CONV_2D, a convolution in groups with one input channel each. The `quantized_dimension` of a filter
  refers to the permuted dimensions.
- All other ops work as TFLite defines, on tensors with permuted shapes. For example, the axis of a CONCATENATION
  refers to the dimensions in their current order, and SOFTMAX works along the last dimension.
- Inputs and outputs of the graph keep the layout that they have in the file.

Permutations are defined as for TRANSPOSE: dimension `i` of the result is dimension `permutation[i]` of the source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from compiler_plugin.plugin import DataLayout
from litert.model.graph import Tensor

Permutation: TypeAlias = tuple[int, ...]

KEEP_LAYOUT = "Use the flag --disable_nhwc_to_nchw to keep the layout NHWC."
"""Hint for errors about ops and tensors whose layout cannot change."""

_CHANNELS_FIRST: Mapping[int, Permutation] = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """A change of layout from NHWC to NCHW, or back.

    Attributes:
      to: Layout of the graph after the change.
      settled: Tensors that need no transposition at run time: constants, and results computed from one constant
        alone.
    """

    to: DataLayout
    settled: Collection[Tensor] = ()

    def image(self, rank: int) -> Permutation | None:
        """Returns the permutation of an image of the given rank; None if images cannot have this rank."""
        forward = _CHANNELS_FIRST.get(rank)
        return None if forward is None else self.filter(forward)

    def filter(self, to_nchw: Permutation) -> Permutation:
        """Returns a filter's permutation for this change; `to_nchw` permutes it from TFLite's order to NCHW."""
        return to_nchw if self.to == "NCHW" else inverse(to_nchw)


def inverse(permutation: Permutation) -> Permutation:
    """Returns the inverse of a permutation."""
    return tuple(permutation.index(axis) for axis in range(len(permutation)))


def permute(values: Sequence[int], permutation: Permutation) -> tuple[int, ...]:
    """Permutes a sequence that has one value for each dimension."""
    return tuple(values[axis] for axis in permutation)


def step(start: Permutation | None, end: Permutation | None) -> Permutation:
    """Returns the permutation from one order of dimensions to another; None stands for the original order."""
    known = tuple(range(len(start or end or ())))
    return tuple((start or known).index(axis) for axis in end or known)


def keeps_memory(shape: Sequence[int], permutation: Permutation) -> bool:
    """Returns whether a permutation leaves all elements in place because it only moves dimensions of size 1."""
    long = [axis for axis in permutation if shape[axis] != 1]
    return long == sorted(long)


def layouts_without(
    change: LayoutChange, rank: int, gone: Collection[int]
) -> tuple[Permutation | None, Permutation | None] | None:
    """Returns the layouts of the tensors before and after an op that removes dimensions.

    For example, `[N, H, W, C]` without H and W is `[N, C]` in both layouts, but without N it is `[H, W, C]` or
    `[C, H, W]`. None in the returned pair means that the order of dimensions does not change. If the op cannot
    change its layout, the function returns None instead of a pair.
    """
    before = change.image(rank)
    after = change.image(rank - len(gone))
    if before is None and after is None:
        return None
    kept = [axis for axis in range(rank) if axis not in gone]
    left = [axis for axis in before or range(rank) if axis not in gone]
    wanted = kept if after is None else [kept[axis] for axis in after]
    return (before, after) if left == wanted else None
