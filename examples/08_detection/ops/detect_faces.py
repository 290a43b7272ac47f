"""DetectFaces selects faces from the outputs of MediaPipe's face detection. `DetectFaces.cl` computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_plugin.transformations import Graph, Node, Op


class DetectFaces(Op):
    """Selects boxes `[N, 4]` and logits `[N]` of faces.

    Its inputs are regressors `[1, 896, 16]`, logits `[1, 896, 1]` and anchors `[896, 2]`.
    """

    op = "DetectFaces"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any] | None = None) -> None:
        defaults = {"infer": DetectFaces.infer, "in_ports_count": 3, "out_ports_count": 2}
        super().__init__(graph, defaults, attrs)

    @staticmethod
    def infer(node: Node) -> None:
        """Leaves the number of faces open, because only a run tells it."""
        node.out_port(0).data.set_shape([-1, 4])
        node.out_port(1).data.set_shape([-1])
