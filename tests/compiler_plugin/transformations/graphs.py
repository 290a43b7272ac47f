"""Helpers that make graphs with inferred shapes, as transformations get them, and find matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.matcher import PatternMatch, find_candidates, find_match
from compiler_plugin.transformations.partial_inference import PartialInference
from compiler_plugin.transformations.pattern import Match, check_pattern
from litert.model.graph import Model


def graph_of(model: Model, **options: Any) -> Graph:
    """Returns the graph of the main subgraph."""
    subgraph = model.subgraphs[0]
    return Graph(model, subgraph, PartialInference(subgraph), **options)


def static_graph_of(model: Model) -> Graph:
    """Returns the graph of the main subgraph with final shapes, as with `--static_shape`."""
    subgraph = model.subgraphs[0]
    inference = PartialInference(subgraph)
    graph = Graph(model, subgraph, inference, static_shape=True)
    inference.make_static(graph)
    return graph


def find_matches(graph: Graph, pattern: Match) -> Iterator[PatternMatch]:
    """Finds all matches of a pattern, in execution order of their last ops; matches may overlap."""
    check_pattern(pattern)
    for node in find_candidates(graph, pattern.ops):
        match = find_match(pattern, node)
        if match is not None:
            yield match
