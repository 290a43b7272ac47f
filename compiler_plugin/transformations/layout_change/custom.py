"""Custom ops: what a user's definition says of their layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from compiler_plugin.transformations.layout_change.layout import LayoutChange
from compiler_plugin.transformations.layout_change.rule import OpPlan
from litert.model.graph import Op

CustomLayout: TypeAlias = Literal["any", "image"]
"""`any`: all tensors of rank 4 or 5 may be in either layout, if they all are in the same one. `image`: they are
images, whose layout is the graph's, as a convolution's; but constants, such as filters, stay as in the file."""


@dataclass(frozen=True)
class CustomOp:
    """A custom op with a layout of its own."""

    layout: CustomLayout
    ops: tuple[str, ...] = ()

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        keeps = change.settled if self.layout == "image" else ()
        inputs = [
            None if t is None or t in keeps else change.image(len(t.shape)) for t in op.inputs
        ]
        outputs = [change.image(len(tensor.shape)) for tensor in op.outputs]
        if not any(inputs) and not any(outputs):
            return None
        return OpPlan(inputs, outputs, is_bound=self.layout == "image")
