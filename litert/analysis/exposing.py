"""Divides intermediate tensors into batches that fit into memory when they become outputs of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from litert.analysis.source_graph import SourceGraph

_MOST_BYTES = 256 << 20


def find_batches(source: SourceGraph, places: Iterable[int]) -> Iterator[list[int]]:
    """Divides tensors into the smallest number of batches that memory allows."""
    batch: list[int] = []
    size = 0
    for place in places:
        tensor = source.tensor(place)
        bytes_ = prod(tensor.shape) * max(tensor.element_type.bits, 8) // 8
        if batch and size + bytes_ > _MOST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += bytes_
    if batch:
        yield batch
