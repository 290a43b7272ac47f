"""Graphs of models as the phases have them, whose shapes are inferred."""

from __future__ import annotations

from typing import Any

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.model.graph import Model


def graph_of(model: Model, **options: Any) -> Graph:
    """The main subgraph's."""
    subgraph = model.subgraphs[0]
    return Graph(model, subgraph, PartialInference(subgraph), **options)


def static_graph_of(model: Model) -> Graph:
    """The main subgraph's, with shapes that are final, as `--static_shape` makes them."""
    subgraph = model.subgraphs[0]
    inference = PartialInference(subgraph)
    graph = Graph(model, subgraph, inference, static_shape=True)
    inference.make_static(graph)
    return graph
