"""The custom op RmsNorm, whose kernel is in `RmsNorm.cl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler_plugin.transformations import Graph, Node, Op


class RmsNorm(Op):
    """Computes x / sqrt(mean(x * x) + epsilon) along the last axis, without weights."""

    op = "RmsNorm"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any] | None = None) -> None:
        defaults = {"infer": RmsNorm.infer, "epsilon": 1e-6, "in_ports_count": 1}
        super().__init__(graph, defaults, attrs)

    def backend_attrs(self) -> Sequence[str]:
        """Returns the attributes to write to the file; the kernel gets `epsilon` as PARAM_epsilon."""
        return ["epsilon"]

    @staticmethod
    def infer(node: Node) -> None:
        """Sets the shape of the output to the shape of the input."""
        shape = node.in_port(0).data.get_shape()
        if shape is not None:
            node.out_port(0).data.set_shape(shape)
