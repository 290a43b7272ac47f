"""The custom op StackFrames joins neighbouring frames: `[N, T, C]` becomes `[N, T / count, C * count]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_plugin.transformations import Graph, Node, Op


class StackFrames(Op):
    """Declares the op, and infers the shape of its output; the op's options are a FlexBuffer map."""

    op = "StackFrames"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any] | None = None) -> None:
        super().__init__(graph, {"infer": StackFrames.infer, "count": 2}, attrs)

    @staticmethod
    def infer(node: Node) -> None:
        """Infers the shape of the output; T is -1 if the number of frames is dynamic."""
        shape = node.in_port(0).data.get_shape()
        if shape is not None:
            batch, frames, channels = shape
            stacked = -1 if frames < 0 else frames // node.count
            node.out_port(0).data.set_shape([batch, stacked, channels * node.count])
