"""Constants of equal data share one buffer; equal constants that were added become one.

Only data that a transformation has made or read are looked at: weights that nobody touched are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from compiler_plugin.transformations.graph import Graph
from litert.core.element_type import ElementType
from litert.model.graph import Buffer, Model, Tensor

_Kind: TypeAlias = tuple[Buffer, ElementType, tuple[int, ...], tuple[int, ...] | None]


def share_constants(graphs: Sequence[Graph]) -> None:
    """Lets equal data of one model be there once.

    Args:
      graphs: of subgraphs of one or more models, which their edits have changed.
    """
    for model in dict.fromkeys(graph.model for graph in graphs):
        own = [graph for graph in graphs if graph.model is model]
        _share_data(model, (buffer for graph in own for buffer in graph.seen_data))
    for graph in graphs:
        _merge_added(graph)


def _share_data(model: Model, buffers: Iterable[Buffer]) -> None:
    tensors: dict[Buffer, list[Tensor]] = defaultdict(list)
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            tensors[tensor.buffer].append(tensor)
    by_size: dict[int, list[Buffer]] = defaultdict(list)
    for buffer in dict.fromkeys(buffers):
        if buffer.blob is not None and buffer.blob.size and buffer in tensors:
            by_size[buffer.blob.size].append(buffer)
    for same_size in by_size.values():
        if len(same_size) > 1:
            first: dict[bytes, Buffer] = {}
            for buffer in same_size:
                kept = first.setdefault(_digest(buffer), buffer)
                if kept is not buffer:
                    for tensor in tensors[buffer]:
                        tensor.buffer = kept


def _digest(buffer: Buffer) -> bytes:
    from hashlib import sha256  # here, since it loads OpenSSL

    assert buffer.blob is not None
    return sha256(buffer.blob.view).digest()


def _merge_added(graph: Graph) -> None:
    """Lets ops that read equal constants read one, where all of them were added."""
    results = {result.tensor for result in graph.results}
    first: dict[_Kind, list[Tensor]] = defaultdict(list)
    for tensor in graph.made_constants:
        if not tensor.readers or tensor in results or not tensor.is_constant:
            continue
        kind = (tensor.buffer, tensor.element_type, tensor.shape, tensor.shape_signature)
        same = first[kind]
        kept = next((t for t in same if t.quantization == tensor.quantization), None)
        if kept is None:
            same.append(tensor)
            continue
        for port in graph.find_readers(tensor):
            port.node.set_input(port.index, kept)
