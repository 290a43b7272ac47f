"""The custom op DetectFaces, which selects faces from the outputs of MediaPipe's face detection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_plugin.transformations import Graph, Node, Op


class DetectFaces(Op):
    """Returns boxes `[N, 4]` and logits `[N]` of N faces.

    The inputs are regressors `[1, 896, 16]`, logits `[1, 896, 1]` and anchors `[896, 2]`. The kernel is in
    `DetectFaces.cl`.
    """

    op = "DetectFaces"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any] | None = None) -> None:
        defaults = {"infer": DetectFaces.infer, "in_ports_count": 3, "out_ports_count": 2}
        super().__init__(graph, defaults, attrs)

    @staticmethod
    def infer(node: Node) -> None:
        """Sets output shapes with an unknown number of faces, because the number is known only after a run."""
        node.out_port(0).data.set_shape([-1, 4])
        node.out_port(1).data.set_shape([-1])
