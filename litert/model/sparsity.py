"""Converts sparse constants to dense constants.

TFLite's schema defines the format (`SparsityParameters`): the stored values are the leaves of a tree, and each
level of the tree stands for a dimension or for a part of a dimension.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Tensor

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from litert.model.table import Table

    Numbers = npt.NDArray[np.int64]

_SPARSE_CSR = 1

_decoded: WeakKeyDictionary[Blob, tuple[tuple[object, ...], bytes]] = WeakKeyDictionary()
"""Cache of dense constants by their stored values, because a compilation needs each constant several times."""


def find_sparsity_mistake(tensor: Tensor) -> str:
    """Returns why a sparse constant cannot be converted to a dense constant; "" if it can be converted."""
    try:
        densify(tensor)
    except LiteRtError as error:
        return error.what
    return ""


def dense_data(tensor: Tensor) -> memoryview:
    """Returns the bytes of a constant in row-major order; a sparse constant is converted by `densify`."""
    return tensor.data if tensor.sparsity is None else memoryview(densify(tensor))


def densify(tensor: Tensor) -> bytes:
    """Converts a sparse constant to a dense constant; returns its bytes in row-major order.

    The result is cached: a second call with the same constant returns the same bytes.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the tree contradicts the constant's shape or the number of its values.
    """
    blob, form = tensor.buffer.blob, (tensor.sparsity, tensor.shape, tensor.element_type)
    assert blob is not None
    known = _decoded.get(blob)
    if known is None or known[0] != form:
        known = _decoded[blob] = form, _decode(tensor)
    return known[1]


def _decode(tensor: Tensor) -> bytes:
    import numpy as np

    bits, sparsity, shape = tensor.element_type.bits, tensor.sparsity, tensor.shape
    assert sparsity is not None
    if bits % 8:
        raise _mistake(f"the elements have type {tensor.element_type.name}")
    data = np.frombuffer(tensor.data, np.uint8)
    values = data[: data.size - data.size % (bits // 8)].reshape(-1, bits // 8)
    order, blocks = (list(sparsity.get(n) or ()) for n in ("traversal_order", "block_map"))
    levels = sparsity.get("dim_metadata") or ()
    rank = len(shape)
    is_order = sorted(order) == list(range(rank + len(blocks))) and len(levels) == len(order)
    if not is_order or any(not 0 <= dim < rank for dim in blocks):
        raise _mistake(f"traversal order {order} and block map {blocks} do not fit rank {rank}")
    places, indices = np.zeros(1, np.int64), [np.zeros(1, np.int64)] * len(order)
    for dim, level in zip(order, levels, strict=True):
        parents, places, index = _expand(places, level, prod(shape))
        indices = [known[parents] for known in indices]
        indices[dim] = index
    sizes = {dim: int(level.get("dense_size")) for dim, level in zip(order, levels, strict=True)}
    for block, dim in enumerate(blocks, rank):
        indices[dim] = indices[dim] * sizes[block] + indices[block]
    for dim, size in enumerate(shape):
        if places.size and not 0 <= indices[dim].min() <= indices[dim].max() < size:
            raise _mistake(f"an index of dimension {dim} is not below {size}")
    if places.size and places.max() >= values.shape[0]:
        raise _mistake(
            f"the constant stores {values.shape[0]} values, but needs {places.max() + 1}"
        )
    dense = np.zeros((prod(shape), values.shape[1]), np.uint8)
    flat = np.ravel_multi_index(indices[:rank], shape) if rank else places
    dense[flat] = values[places]
    return dense.tobytes()


def _expand(places: Numbers, level: Table, most: int) -> tuple[Numbers, Numbers, Numbers]:
    """Expands a level of the tree to at most `most` entries: parent in the previous level, position, and index."""
    import numpy as np

    if level.get("format") != _SPARSE_CSR:
        size = int(level.get("dense_size"))
        if not size > 0 or places.size * size > most:
            raise _mistake(f"a dimension has the invalid size {size}")
        index = np.tile(np.arange(size, dtype=np.int64), places.size)
        parents = np.repeat(np.arange(places.size), size)
        return parents, places[parents] * size + index, index
    segments, found = (_numbers(level, f"array_{name}") for name in ("segments", "indices"))
    if places.size and places.max() + 1 >= segments.size:
        raise _mistake(f"{segments.size} segments, expected {places.max() + 2}")
    begins, ends = segments[places], segments[places + 1]
    if np.any(begins > ends) or np.any(ends > found.size) or np.any(begins < 0):
        raise _mistake(
            f"the segments must be in ascending order and between 0 and {found.size}, the number of indices"
        )
    counts = ends - begins
    if counts.sum() > min(most, found.size):
        raise _mistake("its segments overlap")
    parents = np.repeat(np.arange(places.size), counts)
    inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    where = begins[parents] + inside
    return parents, where, found[where]


def _numbers(level: Table, name: str) -> Numbers:
    import numpy as np

    vector = level.get(name)
    if vector is None:
        raise _mistake(f"the metadata of a dimension has no {name}")
    numbers = vector.get("values")
    return np.array(list(numbers) if not isinstance(numbers, memoryview) else numbers, np.int64)


def _mistake(what: str) -> LiteRtError:
    return LiteRtError(Status.INVALID_FLATBUFFER, f"a sparse constant: {what}")
