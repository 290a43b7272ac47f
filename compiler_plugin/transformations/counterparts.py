"""Finds this project's replacements for names that extensions of OpenVINO's Model Optimizer use.

The guide `docs/transformations.md` shows the same names in a table.
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
"""For each attribute that nodes have in the Model Optimizer, the expression that replaces the attribute."""

_PACKAGES = ("mo", "openvino", "extensions", "networkx")
_PORTS = (
    "Use node.in_port(i) and node.out_port(i), and their get_source, get_destinations and connect."
)
_NODES = "Loop over graph.nodes, the list of all ops, or call graph.find_node(name)."
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
    "unique_id": "No call is needed: the graph makes names unique, and gives each node a unique id.",
    "remove_nodes_from": "Call graph.remove_node(node) for each; graph.clean_up() removes ops without readers.",
    "erase_node": "Connect the node's readers to another port; graph.clean_up() then removes the node.",
    "get_data_nodes": "Graphs have no data nodes: node.in_port(i).data has the shape and the value of an input.",
    "pseudo_topological_sort": "Use graph.topological_sort().",
}  # fmt: skip
"""Sentences that say what replaces the attributes of graphs in the Model Optimizer and in `networkx`."""

_OF_SHAPES = ("copy", "size", "shape", "tolist", "astype", "dtype", "prod")


def find_counterpart(error: BaseException | None) -> str:
    """Returns a sentence that says what replaces a missing Model Optimizer name; "" if nothing does."""
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").partition(".")[0] in _PACKAGES:
            return (
                f"The Model Optimizer's names are in {MODULE}: change the line to `from {MODULE} "
                "import ...`. docs/transformations.md lists the names."
            )
    elif isinstance(error, AttributeError):
        if isinstance(error.obj, tuple) and error.name in _OF_SHAPES:
            return _SHAPES
    elif isinstance(error, TypeError) and str(error).startswith("tuple indices must be integers"):
        return _SHAPES
    return ""


_SHAPES = "Shapes and list attributes are tuples; np.array(shape) converts a shape to an array."
