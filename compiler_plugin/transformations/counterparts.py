"""What takes the place of a name of the Model Optimizer's, where an extension that was written for it uses one.

The table for people is in the guide, `docs/transformations.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

_PACKAGES = ("mo", "openvino", "extensions")
_PORTS = "Use ports: in_port(i), out_port(i), and get_source, get_destinations, connect of them."
_OF_NODES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "in_node", "in_nodes", "in_edge", "in_edges", "out_node", "out_nodes", "out_edge",
            "out_edges", "insert_node_before", "insert_node_after", "remove_node", "replace_input",
        ),
        _PORTS,
    ),
    "pb": "Its attributes are the op's options; node.custom_options has the bytes of a custom op's.",
}  # fmt: skip
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
    """What to use in place of a name that is not there, in a sentence; "" where nothing is known of it.

    Args:
      error: of an import, or of an attribute of a node or graph.
    """
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").partition(".")[0] in _PACKAGES:
            return (
                "The Model Optimizer's classes have counterparts in compiler_plugin.transformations, "
                "which docs/transformations.md lists."
            )
    elif isinstance(error, AttributeError):
        of = {"Node": _OF_NODES, "Graph": _OF_GRAPHS}.get(type(error.obj).__name__, {})
        return of.get(str(error.name), "")
    return ""
