"""Graphs of models as the phases have them, whose shapes are inferred."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.matcher import PatternMatch, find_candidates, find_match
from compiler_plugin.transformations.partial_inference import PartialInference
from compiler_plugin.transformations.pattern import Match, check_pattern
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


def find_matches(graph: Graph, pattern: Match) -> Iterator[PatternMatch]:
    """All places that a pattern fits, in execution order of their last ops; they may overlap."""
    check_pattern(pattern)
    for node in find_candidates(graph, pattern.ops):
        match = find_match(pattern, node)
        if match is not None:
            yield match
