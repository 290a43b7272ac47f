"""What a change of a subgraph leaves behind: what nothing has any more, and old positions in the metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from litert.model.graph import Buffer, Model, Op, OperatorCode, Subgraph, Tensor
from litert.model.positions import (
    read_control_dependencies,
    remove_subgraphs,
    set_control_dependencies,
)


def find_results(model: Model, subgraph: Subgraph) -> set[Tensor]:
    """The tensors of a subgraph that are read from outside its ops: its outputs, and its signatures'."""
    results = set(subgraph.outputs)
    for signature in model.signatures:
        if signature.subgraph is subgraph:
            results.update(tensor for _, tensor in signature.outputs)
    return results


def move_control_dependencies(model: Model, places: Mapping[Subgraph, Mapping[int, int]]) -> None:
    """Names ops by their new positions, where the metadata of a model name any.

    Args:
      model: to change.
      places: of each subgraph in a new order: new positions by the old ones; ops that are gone have none, and
        several may have become one.
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
    """All tensors that ops have, and those that their quantization names."""
    found = {t for op in ops for t in (*op.inputs, *op.outputs, *op.intermediates) if t is not None}
    return found.union(*map(block_scales, found))


def block_scales(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors that a block-wise quantization names: scales, and zero points where it has them."""
    if tensor.blockwise is not None:
        for named in (tensor.blockwise.scales, tensor.blockwise.zero_points):
            if isinstance(named, Tensor):
                yield named


def find_dead_tensors(
    model: Model, subgraph: Subgraph, candidates: Iterable[Tensor]
) -> set[Tensor]:
    """Which of a subgraph's tensors nothing has any more."""
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
    """Takes out tensors that nothing has any more, and what only they and ops that are gone had."""
    dead = find_dead_tensors(model, subgraph, candidates)
    subgraph.remove_tensors(dead)
    drop_buffers(model, {tensor.buffer for tensor in dead})
    drop_operator_codes(model, {op.code for op in gone})


def drop_buffers(model: Model, candidates: Collection[Buffer]) -> None:
    """Takes out buffers that no tensor and no metadata have any more."""
    unused = set(candidates)
    unused.difference_update(model.buffers[:1])  # the schema's empty one
    for subgraph in model.subgraphs:
        unused.difference_update(tensor.buffer for tensor in subgraph.tensors)
    unused.difference_update(entry.buffer for entry in model.metadata)
    unused.difference_update(b for b in model.metadata_buffers if isinstance(b, Buffer))
    if unused:
        model.buffers = [buffer for buffer in model.buffers if buffer not in unused]


def drop_operator_codes(model: Model, candidates: Collection[OperatorCode]) -> None:
    """Takes out operator codes that no op has any more."""
    unused = set(candidates).difference(op.code for op in model.ops())
    if unused:
        model.operator_codes = [code for code in model.operator_codes if code not in unused]


def drop_subgraphs(model: Model, gone: Collection[int]) -> None:
    """Takes out subgraphs that nothing names any more, with the buffers and operator codes that only they have."""
    subgraphs = [model.subgraphs[index] for index in gone]
    remove_subgraphs(model, gone)
    drop_buffers(model, {tensor.buffer for subgraph in subgraphs for tensor in subgraph.tensors})
    drop_operator_codes(model, {op.code for subgraph in subgraphs for op in subgraph.ops})
