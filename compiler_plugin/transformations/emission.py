"""From graphs to a well-formed model again: the last step of all transformations.

The graphs are views of the model, so that little is left to do: what custom ops' nodes say becomes their options,
each result of the model a tensor of its own under its public name, ops and the metadata that name them come into
order, and what nothing has any more goes, also where the file had it.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.leftovers import drop_buffers, drop_operator_codes, find_dead_tensors
from compiler_plugin.transformations.distinct_results import settle_results
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph
from compiler_plugin.transformations.op_attributes import write_attributes
from compiler_plugin.transformations.phase import Phase
from compiler_plugin.transformations.shared_constants import share_constants
from litert.model.control_dependencies import (
    read_control_dependencies,
    set_control_dependencies,
)


def emit(graph: Graph) -> None:
    """Makes a subgraph well-formed after its transformations; `tidy` is the end of it for the whole model.

    Raises:
      LiteRtError: for an op without a type, attributes that cannot be written, and as `check_graph`.
    """
    assert graph.stage is not Phase.FRONT
    for node in graph.known_nodes:
        write_attributes(node)
    if graph.edit_count:
        settle_results(graph)
        graph.infer()
        check_graph(graph)
        write_control_dependencies(graph)


def tidy(graphs: Sequence[Graph]) -> None:
    """Lets equal constants share their data, and takes out what nothing in the model has; the last step of all.

    Args:
      graphs: of subgraphs of one model, emitted.
    """
    share_constants([graph for graph in graphs if graph.edit_count])
    for graph in graphs:
        dead = find_dead_tensors(graph.model, graph.subgraph, graph.subgraph.tensors)
        if dead:
            graph.subgraph.remove_tensors(dead)
    for model in dict.fromkeys(graph.model for graph in graphs):
        drop_buffers(model, model.buffers)
        drop_operator_codes(model, model.operator_codes)


def write_control_dependencies(graph: Graph) -> None:
    """Names ops by their new positions, where the metadata of the model name any."""
    model = graph.model
    every = read_control_dependencies(model)
    index = next((i for i, known in enumerate(model.subgraphs) if known is graph.subgraph), None)
    if index is None or not every[index]:
        return
    place = {op: position for position, op in enumerate(graph.subgraph.ops)}
    edges = sorted({(place[a], place[b]) for a, b in graph.control_edges})
    if edges != sorted(every[index]):
        every[index] = edges
        set_control_dependencies(model, every)
