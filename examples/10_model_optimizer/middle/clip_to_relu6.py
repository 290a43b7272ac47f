"""A pattern of the middle phase, with the data between its ops: their shapes and values are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler_plugin.transformations.model_optimizer import Graph, MiddleReplacementPattern, Relu6


class ClipToRelu6(MiddleReplacementPattern):
    """Replaces min(max(x, 0), 6) by RELU6."""

    enabled = True
    graph_condition = [lambda graph: graph.layout == "NHWC"]  # noqa: RUF012
    force_clean_up = True

    def pattern(self) -> dict[str, Any]:
        """Returns the pattern: ops and data by names."""
        return {
            "nodes": [
                ("x", {"kind": "data"}),
                ("low", {"kind": "data", "value": lambda value: _is_all(value, 0)}),
                ("max", {"kind": "op", "op": "MAXIMUM"}),
                ("max_data", {"kind": "data"}),
                ("high", {"kind": "data", "value": lambda value: _is_all(value, 6)}),
                ("min", {"kind": "op", "op": "MINIMUM"}),
                ("min_data", {"kind": "data"}),
            ],
            "edges": [
                ("x", "max"),
                ("low", "max"),
                ("max", "max_data"),
                ("max_data", "min"),
                ("high", "min"),
                ("min", "min_data"),
            ],
        }

    def replace_pattern(self, graph: Graph, match: dict[str, Any]) -> None:
        """Connects the readers of the minimum to RELU6, unless a constant has broadcast x."""
        if np.array_equal(match["x"].shape, match["min_data"].shape):
            relu = Relu6(graph, {"name": f"{match['min'].name}/relu6"}).create_node([match["x"]])
            match["min"].out_port(0).get_connection().set_source(relu.out_port(0))


def _is_all(value: Any, number: float) -> bool:
    return value is not None and bool(np.all(value == number))
