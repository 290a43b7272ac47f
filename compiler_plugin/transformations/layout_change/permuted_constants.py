"""Permutes the dimensions of tensors: the data of constants, and the quantization and sparsity of all tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler_plugin.transformations.layout_change.image_layout import (
    KEEP_LAYOUT,
    Permutation,
    inverse,
    keeps_memory,
    permute,
)
from litert.core.counts import count_text, index_range
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Buffer, Tensor
from litert.model.table import Table
from litert.model.tensor_data import decode_constant, encode_constant

_RUNS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "V16"}


def permute_type(tensor: Tensor, permutation: Permutation) -> None:
    """Permutes a tensor's shape and quantization, not its data; raises UNSUPPORTED if quantized by blocks."""
    signature = tensor.shape_signature
    is_known = signature is None or len(signature) != len(tensor.shape)
    _permute_quantization(tensor, permutation)
    tensor.shape = permute(tensor.shape, permutation)
    tensor.shape_signature = None if is_known else permute(signature or (), permutation)


class PermutedConstants:
    """Permutes constants; constants that share a buffer also share the permuted buffer.

    Use one object of this class for all subgraphs that share buffers.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[Buffer, tuple[int, ...], int, Permutation], Buffer] = {}

    def permute(self, tensor: Tensor, permutation: Permutation) -> Tensor:
        """Returns a permuted copy of a constant; the copy shares the buffer if the bytes do not change."""
        copy = tensor.clone()
        permute_type(copy, permutation)
        if tensor.sparsity is not None:
            copy.sparsity = _permuted_sparsity(tensor.sparsity, permutation)
        elif not keeps_memory(tensor.shape, permutation):
            key = (tensor.buffer, tensor.shape, tensor.element_type.bits, permutation)
            found = self._buffers.get(key)
            if found is None:
                data = _permuted_data(tensor, permutation)
                found = self._buffers[key] = Buffer(data, tensor.buffer.is_external)
            copy.buffer = found
        return copy


def with_rank(tensor: Tensor, rank: int) -> Tensor:
    """Returns a copy of a tensor whose shape is padded with leading ones to a rank; the copy shares the buffer."""
    added = rank - len(tensor.shape)
    copy = tensor.clone()
    quantization = tensor.quantization
    if quantization is not None and len(quantization.scale) > 1:
        copy.quantization = replace(
            quantization, quantized_dimension=quantization.quantized_dimension + added
        )
    copy.shape = (1,) * added + tensor.shape
    signature = tensor.shape_signature
    copy.shape_signature = (1,) * added + signature if signature else None
    if tensor.sparsity is not None:
        copy.sparsity = _sparsity_with_rank(tensor.sparsity, added)
    return copy


def numbers_like(tensor: Tensor, numbers: Sequence[int]) -> Tensor:
    """Returns a copy of a constant with the given numbers as its data; a scalar stays a scalar."""
    copy = tensor.clone()
    shape = tensor.shape if len(numbers) == 1 and not tensor.shape else (len(numbers),)
    _, blob = encode_constant(list(numbers), tensor.element_type, shape)
    copy.shape, copy.shape_signature, copy.buffer = shape, None, Buffer(blob)
    return copy


def permute_rows(vector: Tensor, permutation: Permutation) -> Tensor:
    """Returns a copy of a constant with reordered elements or rows."""
    size = len(vector.data) // len(permutation)
    rows = [vector.data[place * size : (place + 1) * size] for place in permutation]
    copy = vector.clone()
    copy.buffer = Buffer(Blob(b"".join(rows)))
    return copy


def _permuted_sparsity(sparsity: Table, permutation: Permutation) -> Table:
    """Renumbers the dimensions in a sparsity; the data do not change."""
    places = inverse(permutation)
    rank = len(places)
    order = sparsity.get("traversal_order") or ()
    blocks = sparsity.get("block_map") or ()
    return sparsity.with_fields(
        traversal_order=tuple(axis if axis >= rank else places[axis] for axis in order),
        block_map=tuple(places[axis] for axis in blocks) or None,
    )


def _sparsity_with_rank(sparsity: Table, added: int) -> Table:
    """Adds leading dimensions of size 1 to a sparsity; the data do not change."""
    order = sparsity.get("traversal_order") or ()
    blocks = sparsity.get("block_map") or ()
    ones = [Table.make("DimensionMetadata", format=0, dense_size=1)] * added
    return sparsity.with_fields(
        traversal_order=(*range(added), *(axis + added for axis in order)),
        block_map=tuple(axis + added for axis in blocks) or None,
        dim_metadata=(*ones, *(sparsity.get("dim_metadata") or ())),
    )


def _permuted_data(tensor: Tensor, permutation: Permutation) -> Blob:
    import numpy as np  # imported here, because most commands do not need it

    bits = tensor.element_type.bits
    if bits % 8 or not bits:
        array = decode_constant(tensor.element_type, tensor.shape, tensor.data)
        return encode_constant(array.transpose(permutation), tensor.element_type)[1]
    data = tensor.data
    count = int(np.prod(tensor.shape, dtype=np.int64))
    if len(data) != count * bits // 8:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the constant has {count_text(len(data), 'byte')} of data, but its type {tensor.type} requires "
            f"{count_text(count * bits // 8, 'byte')}",
            f"tensor '{tensor.name}'",
            "The model is damaged: export the model again.",
        )
    elements = np.frombuffer(data, _RUNS[bits // 8]).reshape(tensor.shape)
    return Blob(np.ascontiguousarray(elements.transpose(permutation)).data.cast("B"))


def _permute_quantization(tensor: Tensor, permutation: Permutation) -> None:
    quantization: Quantization | None = tensor.quantization
    if quantization is None:
        return
    if quantization.blockwise is not None:
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the tensor's layout cannot change, because the tensor is quantized by blocks",
            f"tensor '{tensor.name}'",
            KEEP_LAYOUT,
        )
    if len(quantization.scale) > 1:
        dimension = quantization.quantized_dimension
        if not 0 <= dimension < len(permutation):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the tensor is quantized along dimension {dimension}, but "
                f"{index_range('dimension', len(permutation))}",
                f"tensor '{tensor.name}'",
                "The model is damaged: export the model again.",
            )
        tensor.quantization = replace(
            quantization, quantized_dimension=permutation.index(dimension)
        )
