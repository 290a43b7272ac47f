"""Replaces a clip of two ops by RELU6, in the middle phase, in which shapes and constant values are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler_plugin.transformations.model_optimizer import Graph, MiddleReplacementPattern, Relu6


class ClipToRelu6(MiddleReplacementPattern):
    """Replaces the ops min(max(x, 0), 6) by one RELU6 op."""

    enabled = True
    graph_condition = [lambda graph: graph.layout == "NHWC"]  # noqa: RUF012
    force_clean_up = True

    def pattern(self) -> dict[str, Any]:
        """Returns the pattern: op nodes and data nodes with names, and the edges between the nodes."""
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
        """Connects the readers of MINIMUM to a new RELU6 op, unless the ops broadcast x to a larger shape."""
        if np.array_equal(match["x"].shape, match["min_data"].shape):
            relu = Relu6(graph, {"name": f"{match['min'].name}/relu6"}).create_node([match["x"]])
            match["min"].out_port(0).get_connection().set_source(relu.out_port(0))


def _is_all(value: Any, number: float) -> bool:
    return value is not None and bool(np.all(value == number))
