"""Fuses a sub-graph of four ops into one custom op with a kernel."""

from __future__ import annotations

from typing import Any

from compiler_plugin.transformations.model_optimizer import FrontReplacementSubgraph, Graph, Op

from .decompose_mish import DecomposeMish  # type: ignore[import-not-found]


class SwishFusion(FrontReplacementSubgraph):
    """Fuses the ops x / (1 + exp(-beta * x)) into one Swish op."""

    enabled = True

    def run_after(self) -> list[type]:
        """Returns DecomposeMish, so that the fusion also sees the ops that replace Mish."""
        return [DecomposeMish]

    def pattern(self) -> dict[str, Any]:
        """Returns the pattern: the nodes with names, and the edges between the nodes."""
        return {
            "nodes": [
                ("beta", {"op": "Const"}),
                ("mul", {"op": "MUL"}),
                ("exp", {"op": "EXP"}),
                ("one", {"op": "Const", "value": lambda value: value == 1}),
                ("add", {"op": "ADD"}),
                ("div", {"op": "DIV", "fused_activation_function": "NONE"}),
            ],
            "edges": [
                ("beta", "mul"),
                ("mul", "exp"),
                ("exp", "add"),
                ("one", "add"),
                ("add", "div", {"in": 1}),
            ],
        }

    def replace_sub_graph(self, graph: Graph, match: dict[str, Any]) -> None:
        """Replaces the DIV op of a match by a Swish op."""
        mul, div, beta = match["mul"], match["div"], match["beta"]
        x = div.in_port(0).get_source()
        if x not in [port.get_source() for port in mul.in_ports().values()] or beta.value.size > 1:
            return
        swish = Op.get_op_class_by_name("Swish")(graph, {"beta": -float(beta.value)}).create_node()
        x.connect(swish.in_port(0))
        div.out_port(0).get_connection().set_source(swish.out_port(0))
