"""The ops of a scope, which `softmax_head.json` names, become one of TFLite's."""

from __future__ import annotations

from compiler_plugin.transformations.model_optimizer import (
    FrontReplacementFromConfigFileSubGraph,
    Graph,
    Node,
    Softmax,
    SubgraphMatch,
)


class SoftmaxHead(FrontReplacementFromConfigFileSubGraph):
    """exp(x) / sum(exp(x)) of a scope becomes SOFTMAX."""

    replacement_id = "SoftmaxHead"

    def generate_sub_graph(self, graph: Graph, match: SubgraphMatch) -> dict[str, Node]:
        """The new op, without its input."""
        beta = match.custom_replacement_desc.custom_attributes["beta"]
        softmax = Softmax(graph, {"name": f"{match.scope}/softmax", "beta": beta}).create_node()
        return {"softmax": softmax}

    def input_edges_match(
        self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict[str, Node]
    ) -> dict[tuple[str, int], str]:
        """It reads what the sub-graph has read."""
        node, port = match.single_input_node(0)
        return {(node.id, port): new_sub_graph["softmax"].id}

    def output_edges_match(
        self, graph: Graph, match: SubgraphMatch, new_sub_graph: dict[str, Node]
    ) -> dict[str, str]:
        """It is read as the sub-graph was."""
        return {match.output_node(0)[0].id: new_sub_graph["softmax"].id}
