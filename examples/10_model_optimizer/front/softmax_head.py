"""Replaces the ops in a scope that `softmax_head.json` names by one builtin op."""

from __future__ import annotations

from compiler_plugin.transformations.model_optimizer import (
    FrontReplacementFromConfigFileSubGraph,
    Graph,
    Node,
    Softmax,
    SubgraphMatch,
)


class SoftmaxHead(FrontReplacementFromConfigFileSubGraph):
    """Replaces the ops exp(x) / sum(exp(x)) in a scope by one SOFTMAX op."""

    replacement_id = "SoftmaxHead"

    def generate_sub_graph(self, graph: Graph, match: SubgraphMatch) -> dict[str, Node]:
        """Creates the SOFTMAX op, without its input."""
        beta = match.custom_replacement_desc.custom_attributes["beta"]
        softmax = Softmax(graph, {"name": f"{match.scope}/softmax", "beta": beta}).create_node()
        return {"softmax": softmax}

    def input_edges_match(
        self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict[str, Node]
    ) -> dict[tuple[str, int], str]:
        """Connects the SOFTMAX op to the input of the replaced sub-graph."""
        node, port = match.single_input_node(0)
        return {(node.id, port): new_sub_graph["softmax"].id}

    def output_edges_match(
        self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict[str, Node]
    ) -> dict[str, str]:
        """Connects the readers of the replaced sub-graph to the SOFTMAX op."""
        return {match.output_node(0)[0].id: new_sub_graph["softmax"].id}
