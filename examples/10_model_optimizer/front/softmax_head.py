"""Replaces the ops of a scope, which `softmax_head.json` names, by one TFLite op."""

from __future__ import annotations

from compiler_plugin.transformations.model_optimizer import (
    FrontReplacementFromConfigFileSubGraph,
    Graph,
    Node,
    Softmax,
    SubgraphMatch,
)


class SoftmaxHead(FrontReplacementFromConfigFileSubGraph):
    """Replaces exp(x) / sum(exp(x)) in a scope by SOFTMAX."""

    replacement_id = "SoftmaxHead"

    def generate_sub_graph(self, graph: Graph, match: SubgraphMatch) -> dict[str, Node]:
        """Creates the new op, without its input."""
        beta = match.custom_replacement_desc.custom_attributes["beta"]
        softmax = Softmax(graph, {"name": f"{match.scope}/softmax", "beta": beta}).create_node()
        return {"softmax": softmax}

    def input_edges_match(
        self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict[str, Node]
    ) -> dict[tuple[str, int], str]:
        """Connects the new op to the input of the sub-graph."""
        node, port = match.single_input_node(0)
        return {(node.id, port): new_sub_graph["softmax"].id}

    def output_edges_match(
        self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict[str, Node]
    ) -> dict[str, str]:
        """Connects the readers of the sub-graph to the new op."""
        return {match.output_node(0)[0].id: new_sub_graph["softmax"].id}
