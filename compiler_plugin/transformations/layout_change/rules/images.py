"""Ops that TFLite has for one layout only: in an NCHW graph they have their channel-first meaning.

Which dimension is H, W or C is nowhere in the op, so it has no choice, and neither has its filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from compiler_plugin.transformations.layout_change.rule import Edit, OpPlan, PortLayout
from litert.model.graph import Op


@dataclass(frozen=True)
class ImageOp:
    """An op on images.

    Attributes:
      rank: of the images.
      image: index of the input that is one; so is output 0.
      filter: index of the filter; -1 is none.
      filter_order: how a filter is permuted on the way to NCHW.
      shape: index of the input with the output's shape; -1 is none.
      blocks: index of the input with a size for each dimension of space; -1 is none. It may be for other ranks.
    """

    ops: Sequence[str]
    rank: int = 4
    image: int = 0
    filter: int = -1
    filter_order: Permutation = ()
    shape: int = -1
    blocks: int = -1

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        image = op.inputs[self.image] if self.image < len(op.inputs) else None
        if image is None or len(op.outputs) != 1:
            return None
        if len(image.shape) != self.rank or len(op.outputs[0].shape) != self.rank:
            return None
        return self.plan_any(op, change)

    def plan_any(self, op: Op, change: LayoutChange) -> OpPlan | None:
        """The same, where nobody knows yet of what rank images are."""
        permutation = change.image(self.rank)
        blocks = op.inputs[self.blocks] if 0 <= self.blocks < len(op.inputs) else None
        if permutation is None or (blocks is not None and blocks.shape != (self.rank - 2,)):
            return None
        inputs: list[PortLayout] = [None] * len(op.inputs)
        inputs[self.image] = permutation
        if 0 <= self.filter < len(inputs):
            inputs[self.filter] = change.filter(self.filter_order)
        vectors = {self.shape: permutation} if self.shape >= 0 else {}
        return OpPlan(inputs, [permutation], Edit(vectors=vectors), is_bound=True)


_OHWI = (0, 3, 1, 2)
_1HWO = (3, 0, 1, 2)
_DHWIO = (4, 3, 0, 1, 2)
_DHWOI = (3, 4, 0, 1, 2)

RULES = (
    ImageOp(("CONV_2D",), filter=1, filter_order=_OHWI),
    ImageOp(("DEPTHWISE_CONV_2D",), filter=1, filter_order=_1HWO),
    ImageOp(("TRANSPOSE_CONV",), image=2, filter=1, filter_order=_OHWI, shape=0),
    ImageOp(("CONV_3D",), rank=5, filter=1, filter_order=_DHWIO),
    ImageOp(("CONV_3D_TRANSPOSE",), rank=5, image=2, filter=1, filter_order=_DHWOI, shape=0),
    ImageOp(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")),
    ImageOp(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")),
    ImageOp(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")),
    ImageOp(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), blocks=1),
    ImageOp(("LOCAL_RESPONSE_NORMALIZATION",)),  # across channels
)
