"""Layouts of images, and what ops mean in a graph of either: the contract of NHWC and NCHW.

TFLite has one layout: `[N, H, W, C]` and `[N, D, H, W, C]`. A graph whose layout is NCHW (`graph.layout`) is the
same list of ops and tensors, and differs in these points alone:

- Ops that are bound to a layout (`rules/images.py`: convolutions, poolings, RESIZE_*, DEPTH_TO_SPACE, ...) have
  their channel-first meaning: images are `[N, C, H, W]` or `[N, C, D, H, W]`, wherever rank 4 or 5 says that
  there is one. Their options, biases, the `[H, W]` of RESIZE_*, the blocks and paddings of SPACE_TO_BATCH_ND
  are as they were; TRANSPOSE_CONV's `output_shape` is that of its image.
- Filters are output channels, input channels, then space: `[O, I, H, W]` of CONV_2D and TRANSPOSE_CONV,
  `[O, I, D, H, W]` of CONV_3D and CONV_3D_TRANSPOSE, and `[O, 1, H, W]` of DEPTHWISE_CONV_2D, a convolution in
  groups with one input channel each. `quantized_dimension` follows.
- All other ops mean what they mean in TFLite, on the shapes that their tensors have: the axis of a CONCATENATION
  is counted in the tensors as they stand, SOFTMAX works along the last one.
- Inputs and outputs of the graph are in the layout that the file had them in.

A permutation is TRANSPOSE's: dimension `i` of the result is dimension `permutation[i]` of what it is made from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from compiler_plugin.plugin import DataLayout
from litert.model.graph import Tensor

Permutation: TypeAlias = tuple[int, ...]

_CHANNELS_FIRST: Mapping[int, Permutation] = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """From NHWC to NCHW, or back.

    Attributes:
      to: the layout that the graph has afterwards.
      settled: tensors that cost nothing in any order: constants, and what is computed of one alone.
    """

    to: DataLayout
    settled: Collection[Tensor] = ()

    def image(self, rank: int) -> Permutation | None:
        """How an image of that rank is permuted; None for ranks that no image has."""
        forward = _CHANNELS_FIRST.get(rank)
        return None if forward is None else self.filter(forward)

    def filter(self, to_nchw: Permutation) -> Permutation:
        """How a filter is permuted that `to_nchw` brings from TFLite's order to that of an NCHW graph."""
        return to_nchw if self.to == "NCHW" else inverse(to_nchw)


def inverse(permutation: Permutation) -> Permutation:
    """The permutation that takes another back."""
    return tuple(permutation.index(axis) for axis in range(len(permutation)))


def permute(values: Sequence[int], permutation: Permutation) -> tuple[int, ...]:
    """One value for each dimension, in the new order of dimensions."""
    return tuple(values[axis] for axis in permutation)


def step(start: Permutation | None, end: Permutation | None) -> Permutation:
    """The permutation from one order of a tensor's dimensions to another; None, for one, is the original order."""
    known = tuple(range(len(start or end or ())))
    return tuple((start or known).index(axis) for axis in end or known)


def keeps_memory(shape: Sequence[int], permutation: Permutation) -> bool:
    """Whether a permutation of a shape leaves elements in their places, since it moves only dimensions of 1."""
    long = [axis for axis in permutation if shape[axis] != 1]
    return long == sorted(long)


def layouts_without(
    change: LayoutChange, rank: int, gone: Collection[int]
) -> tuple[Permutation | None, Permutation | None] | None:
    """The layouts of a tensor before and after dimensions are taken out of it.

    `[N, H, W, C]` without H and W is `[N, C]` in either layout; without N it is `[H, W, C]` or `[C, H, W]`, and
    the one cannot stand for the other. Of the two layouts, None is an order that stays. None alone: the op cannot
    have another layout.
    """
    before = change.image(rank)
    after = change.image(rank - len(gone))
    if before is None and after is None:
        return None
    kept = [axis for axis in range(rank) if axis not in gone]
    left = [axis for axis in before or range(rank) if axis not in gone]
    wanted = kept if after is None else [kept[axis] for axis in after]
    return (before, after) if left == wanted else None
