"""Cleans up a changed subgraph: removes unused tensors and buffers, and updates op positions in the metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from litert.model.graph import Buffer, Model, Op, OperatorCode, Subgraph, Tensor
from litert.model.positions import (
    read_control_dependencies,
    remove_subgraphs,
    set_control_dependencies,
)


def find_results(model: Model, subgraph: Subgraph) -> set[Tensor]:
    """Finds the tensors of a subgraph that are outputs of the subgraph or of one of its signatures."""
    results = set(subgraph.outputs)
    for signature in model.signatures:
        if signature.subgraph is subgraph:
            results.update(tensor for _, tensor in signature.outputs)
    return results


def move_control_dependencies(model: Model, places: Mapping[Subgraph, Mapping[int, int]]) -> None:
    """Updates the positions of ops in the control dependencies of a model's metadata.

    Args:
      model: Model to change.
      places: For each subgraph in which ops have new positions, the new position of each op by its old position.
        Removed ops have no entry, and ops that were merged into one have the same new position.
    """
    edges = read_control_dependencies(model)
    if not any(edges):
        return
    for index, subgraph in enumerate(model.subgraphs):
        if subgraph in places:
            new = places[subgraph]
            moved = [(new[a], new[b]) for a, b in edges[index] if a in new and b in new]
            edges[index] = [(a, b) for a, b in moved if a != b]
    set_control_dependencies(model, edges)


def tensors_of(ops: Iterable[Op]) -> set[Tensor]:
    """Returns all tensors that the ops use, and the tensors to which the quantization of those tensors refers."""
    found = {t for op in ops for t in (*op.inputs, *op.outputs, *op.intermediates) if t is not None}
    return found.union(*map(block_scales, found))


def block_scales(tensor: Tensor) -> Iterator[Tensor]:
    """Yields the tensors of the scales and zero points (if any) of a tensor with block-wise quantization."""
    if tensor.blockwise is not None:
        for named in (tensor.blockwise.scales, tensor.blockwise.zero_points):
            if isinstance(named, Tensor):
                yield named


def find_dead_tensors(
    model: Model, subgraph: Subgraph, candidates: Iterable[Tensor]
) -> set[Tensor]:
    """Returns those of the given tensors that the subgraph no longer uses."""
    alive = {*subgraph.inputs, *find_results(model, subgraph)}
    for signature in model.signatures:
        if signature.subgraph is subgraph:
            alive.update(tensor for _, tensor in signature.inputs)
    for op in subgraph.ops:
        alive.update(tensor for tensor in op.intermediates if tensor is not None)
    dead = {t for t in candidates if not t.producer and not t.readers and t not in alive}
    for tensor in subgraph.tensors:
        if tensor not in dead:
            dead.difference_update(block_scales(tensor))
    return dead


def drop_dead(
    model: Model, subgraph: Subgraph, candidates: Iterable[Tensor], gone: Iterable[Op]
) -> None:
    """Removes unused tensors of a subgraph, and the buffers and operator codes that become unused."""
    dead = find_dead_tensors(model, subgraph, candidates)
    subgraph.remove_tensors(dead)
    drop_buffers(model, {tensor.buffer for tensor in dead})
    drop_operator_codes(model, {op.code for op in gone})


def drop_buffers(model: Model, candidates: Collection[Buffer]) -> None:
    """Removes buffers that no tensor and no metadata use any more."""
    unused = set(candidates)
    unused.difference_update(model.buffers[:1])  # the schema's empty one
    for subgraph in model.subgraphs:
        unused.difference_update(tensor.buffer for tensor in subgraph.tensors)
    unused.difference_update(entry.buffer for entry in model.metadata)
    unused.difference_update(b for b in model.metadata_buffers if isinstance(b, Buffer))
    if unused:
        model.buffers = [buffer for buffer in model.buffers if buffer not in unused]


def drop_operator_codes(model: Model, candidates: Collection[OperatorCode]) -> None:
    """Removes operator codes that no op uses any more."""
    unused = set(candidates).difference(op.code for op in model.ops())
    if unused:
        model.operator_codes = [code for code in model.operator_codes if code not in unused]


def drop_subgraphs(model: Model, gone: Collection[int]) -> None:
    """Removes subgraphs, and the buffers and operator codes that only these subgraphs use."""
    subgraphs = [model.subgraphs[index] for index in gone]
    remove_subgraphs(model, gone)
    drop_buffers(model, {tensor.buffer for subgraph in subgraphs for tensor in subgraph.tensors})
    drop_operator_codes(model, {op.code for subgraph in subgraphs for op in subgraph.ops})
