"""Rules for ops on images, which TFLite defines only for NHWC.

No option of an image op says which dimension is H, W or C, so the op and its filter must have the layout of the
graph. In an NCHW graph, the op therefore works channel-first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from compiler_plugin.transformations.layout_change.rule import Edit, OpPlan, PortLayout
from litert.model.graph import Op


@dataclass(frozen=True)
class ImageOp:
    """Rule for ops that work on images.

    Attributes:
      rank: Rank of the images.
      image: Index of the input that is an image; output 0 is an image too.
      filter: Index of the input with the filter; -1 if the op has no filter.
      filter_order: Permutation of the filter from TFLite's order to NCHW.
      shape: Index of the input with the output's shape; -1 if there is no such input.
      blocks: Index of the input with a block size for each spatial dimension; -1 if there is no such input. The
        rule applies only if the number of block sizes fits `rank`.
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
        """Same as `plan`, but for ops whose images have an unknown rank."""
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
