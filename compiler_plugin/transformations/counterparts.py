"""What takes the place of a name of the Model Optimizer's, where an extension that was written for it uses one.

The table for people is in the guide, `docs/transformations.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

CLASS_NAMES: Mapping[str, str] = {
    "BackReplacementPattern": "PatternReplacement, or Transformation",
    "FrontExtractorOp": "Extractor",
    "FrontReplacementFromConfigFileGeneral": "GeneralReplacement",
    "FrontReplacementFromConfigFileOp": "SubgraphReplacement, or a description with an 'op'",
    "FrontReplacementFromConfigFileSubGraph": "SubgraphReplacement",
    "FrontReplacementOp": "OpReplacement",
    "FrontReplacementPattern": "Transformation",
    "FrontReplacementSubgraph": "PatternReplacement",
    "MiddleReplacementPattern": "PatternReplacement, or Transformation",
    "Port": "InPort and OutPort",
}
"""Of classes there, by their names."""

NODE_NAMES: Mapping[str, str] = {
    "in_node": "in_port(i).get_source().node",
    "in_nodes": "in_ports(), each with its get_source().node",
    "out_node": "out_port(i).get_destinations(), each with its node",
    "out_nodes": "out_ports(), each with its get_destinations()",
    "in_edge": "in_port(i)",
    "in_edges": "in_ports()",
    "out_edge": "out_port(i)",
    "out_edges": "out_ports()",
    "pb": "model_op",
    "shape": "out_port(0).data.get_shape()",
    "value": "out_port(0).data.get_value()",
}
"""Of what nodes have there."""

_PACKAGES = ("mo", "openvino", "extensions")
_PORTS = "Use ports: in_port(i), out_port(i), and get_source, get_destinations, connect of them."
_OF_GRAPHS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "create_edge", "add_edge", "add_edges_from", "remove_edge", "remove_edges_from", "in_edges",
            "out_edges", "edges", "successors", "predecessors", "in_degree", "out_degree",
        ),
        _PORTS,
    ),
    "graph": "Use graph.layout, graph.static_shape and graph.stage.",
    "node": "Use graph.nodes, or graph.find_node(name).",
    "add_node": "Use graph.create_op, or create_node of the op's class.",
    "unique_id": "Names and ids are made unique where they are taken.",
    "erase_node": "Connect the readers to another port; graph.clean_up() then takes the node away.",
    "get_data_nodes": "There are no data nodes: in_port(i).data and out_port(i).data have shape and value.",
    "pseudo_topological_sort": "Use graph.topological_sort().",
}  # fmt: skip


def find_counterpart(error: BaseException | None) -> str:
    """What to use in place of a name that an import or graph lacks, in a sentence; "" where nothing is known."""
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").partition(".")[0] in _PACKAGES:
            return (
                "The Model Optimizer's classes have counterparts in compiler_plugin.transformations, "
                "which docs/transformations.md lists."
            )
    elif isinstance(error, AttributeError) and type(error.obj).__name__ == "Graph":
        return _OF_GRAPHS.get(str(error.name), "")
    return ""
