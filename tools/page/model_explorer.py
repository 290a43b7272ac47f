"""Writes a page's graph for the viewer Model Explorer, as JSON files.

One file contains the graph. For each measure, another file contains the numbers of the nodes. `graph_builder.py`
and `node_data_builder.py` in google-ai-edge/model-explorer define the formats.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import inf, isfinite

from litert.core.errors import LiteRtError
from litert.core.status import Status

from ..console import json_text
from .page import Graph, GraphNode, Measure, NodeGroup, Page, Quantity, ShownSubgraph, ShownTensor

_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#ff9447"}]
_UNITS = {Quantity.SECONDS: "s", Quantity.BYTES: "bytes", Quantity.DECIBEL: "dB"}
_NPU_STYLE = {"backgroundColor": "#d5efec", "borderColor": "#0a7d74"}


def explorer_files(page: Page, path: str) -> Mapping[str, str]:
    """Returns files by path: the graph (`model.json`), and the numbers of each measure (`model.time.json`)."""
    if not page.graph:
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the command has no graph to write for Model Explorer",
            path,
            "Omit --model_explorer.",
        )
    names = _graph_names(page.graph)
    graphs = [
        {
            "id": name,
            "nodes": _nodes(subgraph, page.measures),
        }
        for name, subgraph in zip(names, page.graph, strict=True)
    ]
    files = {path: json_text({"label": page.title, "graphs": graphs}, is_compact=True)}
    stem, suffix = os.path.splitext(path)
    for measure in page.measures:
        data = {
            name: _node_data(measure, subgraph)
            for name, subgraph in zip(names, page.graph, strict=True)
        }
        place = f"{stem}.{measure.name.lower().replace(' ', '_')}{suffix}"
        files[place] = json_text(data, is_compact=True)
    return files


def _graph_names(graph: Graph) -> Sequence[str]:
    """Returns a unique name for each subgraph."""
    names = [subgraph.name for subgraph in graph]
    return [
        name if names.count(name) == 1 else f"{name} ({index})" for index, name in enumerate(names)
    ]


def _nodes(subgraph: ShownSubgraph, measures: Sequence[Measure]) -> list[dict[str, object]]:
    producers = {t: (n.id, i) for n in subgraph.nodes for i, t in enumerate(n.outputs)}
    return [
        {
            **_node(node, subgraph.tensors, producers),
            "namespace": _namespace(node.group, subgraph.groups),
            "attrs": _attributes(_facts(node, measures)),
        }
        for node in subgraph.nodes
    ]


def _facts(node: GraphNode, measures: Sequence[Measure]) -> Mapping[str, str]:
    facts: dict[str, str] = {}
    if node.kind == "op":
        facts["runs on"] = f"NPU, {node.call}" if node.call else "CPU"
    if node.reason:
        facts["reason for the CPU"] = node.reason
    for measure in measures:
        if node.id in measure.values:
            facts[measure.name] = f"{measure.values[node.id]:g}"
        if node.id in measure.counted_in:
            facts[measure.name] = f"counted in {measure.counted_in[node.id]}"
        if node.id in measure.flagged:
            facts[f"{measure.name}, beyond"] = measure.flagged[node.id]
    return facts


def _node(
    node: GraphNode, tensors: Sequence[ShownTensor], producers: Mapping[int, tuple[str, int]]
) -> dict[str, object]:
    made: dict[str, object] = {
        "id": node.id,
        "label": node.name,
        "incomingEdges": [
            {
                "sourceNodeId": producers[tensor][0],
                "sourceNodeOutputId": str(producers[tensor][1]),
                "targetNodeInputId": str(index),
            }
            for index, tensor in enumerate(node.inputs)
            if tensor in producers
        ],
        "outputsMetadata": [
            {
                "id": str(index),
                "attrs": _attributes(
                    {"tensor_name": tensors[tensor].name, "type": tensors[tensor].type}
                ),
            }
            for index, tensor in enumerate(node.outputs)
        ],
    }
    if node.call:
        made["style"] = _NPU_STYLE
    return made


def _namespace(index: int, groups: Sequence[NodeGroup]) -> str:
    names: list[str] = []
    while index >= 0:
        names.insert(0, groups[index].name.replace("/", "_"))
        index = groups[index].parent
    return "/".join(names)


def _attributes(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _node_data(measure: Measure, subgraph: ShownSubgraph) -> dict[str, object]:
    results = {
        node.id: {"value": measure.values[node.id]}
        for node in subgraph.nodes
        if isfinite(measure.values.get(node.id, inf))
    }
    unit = _UNITS.get(measure.quantity)
    name = f"{measure.name} ({unit})" if unit else measure.name
    return {"name": name, "results": results, "gradient": _GRADIENT}
