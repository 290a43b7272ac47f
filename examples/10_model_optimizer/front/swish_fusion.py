"""Fuses a sub-graph into one op that has a kernel."""

from __future__ import annotations

from typing import Any

from compiler_plugin.transformations.model_optimizer import FrontReplacementSubgraph, Graph, Op

from .decompose_mish import DecomposeMish  # type: ignore[import-not-found]


class SwishFusion(FrontReplacementSubgraph):
    """Fuses x / (1 + exp(-beta * x)) into Swish."""

    enabled = True

    def run_after(self) -> list[type]:
        """What Mish becomes is no Swish, but has parts of one."""
        return [DecomposeMish]

    def pattern(self) -> dict[str, Any]:
        """Returns the pattern: nodes by names, and the edges between them."""
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
        """Connects a Swish to the readers of the quotient."""
        mul, div, beta = match["mul"], match["div"], match["beta"]
        x = div.in_port(0).get_source()
        if x not in [port.get_source() for port in mul.in_ports().values()] or beta.value.size > 1:
            return
        swish = Op.get_op_class_by_name("Swish")(graph, {"beta": -float(beta.value)}).create_node()
        x.connect(swish.in_port(0))
        div.out_port(0).get_connection().set_source(swish.out_port(0))
