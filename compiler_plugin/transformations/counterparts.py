"""Finds the counterparts of Model Optimizer names, for extensions that were written for the Model Optimizer.

The guide `docs/transformations.md` has the same table for people.
"""

from __future__ import annotations

from collections.abc import Mapping

MODULE = "compiler_plugin.transformations.model_optimizer"
"""Module with classes and functions of the Model Optimizer under their original names."""

NODE_NAMES: Mapping[str, str] = {
    "in_edge": "in_port(i)",
    "in_edges": "in_ports()",
    "out_edge": "out_port(i)",
    "out_edges": "out_ports()",
    "pb": "model_op",
    "shape": "out_port(0).data.get_shape()",
    "value": "out_port(0).data.get_value()",
}
"""Counterparts of the Model Optimizer's attributes of nodes."""

_PACKAGES = ("mo", "openvino", "extensions", "networkx")
_PORTS = "Use ports: in_port(i), out_port(i), and get_source, get_destinations, connect of them."
_NODES = "Use graph.nodes, a list of nodes without inputs and results, or graph.find_node(name)."
GRAPH_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "create_edge", "add_edge", "add_edges_from", "remove_edge", "remove_edges_from", "in_edges",
            "out_edges", "edges", "successors", "predecessors", "in_degree", "out_degree",
        ),
        _PORTS,
    ),
    **dict.fromkeys(("node", "has_node_id", "get_node_id_by_name"), _NODES),
    "add_node": "Use graph.create_op, or create_node of the op's class.",
    "unique_id": "Names and ids are made unique where they are taken.",
    "remove_nodes_from": "Use graph.remove_node(node) for each; graph.clean_up() takes out what nobody reads.",
    "erase_node": "Connect the readers to another port; graph.clean_up() then takes the node away.",
    "get_data_nodes": "There are no data nodes: in_port(i).data has the shape and the value.",
    "pseudo_topological_sort": "Use graph.topological_sort().",
}  # fmt: skip
"""Counterparts of the Model Optimizer's attributes of graphs, including those of `networkx`, as sentences."""

_OF_SHAPES = ("copy", "size", "shape", "tolist", "astype", "dtype", "prod")


def find_counterpart(error: BaseException | None) -> str:
    """Returns a sentence with the counterpart of a missing name; "" if no counterpart is known."""
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").partition(".")[0] in _PACKAGES:
            return (
                f"The Model Optimizer's names are in {MODULE}: change the line to `from {MODULE} "
                "import ...`. docs/transformations.md has the list."
            )
    elif isinstance(error, AttributeError):
        if isinstance(error.obj, tuple) and error.name in _OF_SHAPES:
            return _SHAPES
    elif isinstance(error, TypeError) and str(error).startswith("tuple indices must be integers"):
        return _SHAPES
    return ""


_SHAPES = "Shapes and lists in attributes are tuples here: np.array(shape) makes an array."
