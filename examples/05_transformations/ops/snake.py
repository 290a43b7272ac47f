"""The custom op Snake, x + sin(alpha x)^2 / alpha (arXiv:2006.08195), which the NPU does not support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_plugin.transformations import Graph, Op


class Snake(Op):
    """Declares Snake without a type, so that the host reports an error if a Snake op is not replaced."""

    op = "Snake"

    def __init__(self, graph: Graph, attrs: Mapping[str, Any] | None = None) -> None:
        super().__init__(graph, {"type": None, "infer": None, "alpha": 1.0}, attrs)
