"""Writes some ops of a model as a separate model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from compiler_plugin.composites import find_unused
from compiler_plugin.leftovers import (
    drop_buffers,
    drop_dead,
    drop_subgraphs,
    find_results,
    move_control_dependencies,
)
from compiler_plugin.outline import make_partition
from litert.analysis.source_graph import SourceGraph
from litert.model.graph import Signature
from litert.model.reader import read_model
from litert.model.writer import write_model

_DESCRIPTION = "TFLITE_METADATA"
"""Names of metadata that describe the inputs and outputs of the whole model."""

_KEY = "serving_default"


@dataclass(frozen=True, slots=True)
class PartEnds:
    """Inputs and outputs of a part of a model: places of tensors in the source model, by signature name."""

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]

    def moved(self, places: Mapping[int, int]) -> PartEnds:
        """Returns these inputs and outputs for another model, given the places of the tensors in that model."""
        inputs, outputs = (
            {name: places[place] for name, place in named.items()}
            for named in (self.inputs, self.outputs)
        )
        return PartEnds(inputs, outputs)


def find_ends(source: SourceGraph, ops: Collection[int]) -> PartEnds:
    """Finds the inputs and outputs of a part.

    The names of inputs and outputs are unique, and come from the source's signature or from tensors.

    Args:
      source: The whole model.
      ops: Places of the part's ops in the source.
    """
    results = find_results(source.model, source.subgraph)
    part = make_partition("", source.subgraph, sorted(ops), results)
    inputs = [source.places[tensor] for tensor in part.inputs if not tensor.is_variable]
    outputs = [source.places[tensor] for tensor in part.outputs]
    return PartEnds(
        name_tensors(source, inputs, source.inputs), name_tensors(source, outputs, source.outputs)
    )


def name_tensors(
    source: SourceGraph, places: Iterable[int], given: Mapping[str, int]
) -> dict[str, int]:
    """Returns unique names for tensors, from `given` or from the model."""
    by_place = {place: name for name, place in given.items()}
    named: dict[str, int] = {}
    for place in places:
        name = by_place.get(place) or source.tensor(place).name
        named[f"{name}_{place}" if not name or name in named else name] = place
    return named


def write_part(source: SourceGraph, ops: Collection[int], ends: PartEnds, target: str) -> None:
    """Writes a part of a model: its ops and all that the ops need, unchanged from the source model.

    The part has one signature, with the key of the source's signature.
    """
    with read_model(source.path) as model:
        subgraph = model.subgraphs[source.subgraph_index]
        tensors = list(subgraph.tensors)
        positions = sorted(ops)
        kept = [subgraph.ops[position] for position in positions]
        gone = [op for place, op in enumerate(subgraph.ops) if place not in ops]
        for op in gone:
            op.release()
        subgraph.ops = kept
        move_control_dependencies(
            model, {subgraph: {old: new for new, old in enumerate(positions)}}
        )
        inputs, outputs = (
            [(name, tensors[place]) for name, place in named.items()]
            for named in (ends.inputs, ends.outputs)
        )
        subgraph.inputs = [tensor for _, tensor in inputs]
        subgraph.outputs = [tensor for _, tensor in outputs]
        model.signatures = [Signature(source.key or _KEY, subgraph, inputs, outputs)]
        model.metadata = [entry for entry in model.metadata if entry.name != _DESCRIPTION]
        others = set(range(len(model.subgraphs))) - {source.subgraph_index}
        drop_dead(model, subgraph, tensors, gone)
        drop_subgraphs(model, find_unused(model, others, ()))
        drop_buffers(model, model.buffers)
        write_model(model, target)
