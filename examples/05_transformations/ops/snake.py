"""Snake: x + sin(alpha x)^2 / alpha (arXiv:2006.08195), which is in the model, but not on the NPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_plugin.transformations import Graph, Op


class Snake(Op):
    """A helper for transformations: an op without a type must be replaced in the end."""

    op = "Snake"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any] | None = None) -> None:
        super().__init__(graph, {"type": None, "infer": None, "alpha": 1.0}, attrs)
