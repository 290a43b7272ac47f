"""Converts the schema's table `QuantizationParameters` to the class `Quantization`, and back.

A block-wise quantization in a file contains the indices of tensors. In the graph, a block-wise quantization refers
to tensor objects, so that the writer can compute new indices if the graph has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litert.core.quantization import BlockwiseQuantization, ConstantTensor, Quantization
from litert.model.table import Table

IndexOf = Callable[[ConstantTensor], int]
"""Function that returns a tensor's index in its subgraph."""

_BLOCKWISE, _MULTI_AXIS = "BlockwiseQuantization", "MultiAxisQuantization"


def read_quantization(
    table: Table, tensor_of: Callable[[int], ConstantTensor | None]
) -> Quantization | None:
    """Converts a table, or returns None if the table is empty; `tensor_of` returns the tensor at an index."""
    fields = dict(table.fields())
    details: Table | None = fields.pop("details", None)
    fields.pop("details_type", None)
    if details is not None and details.type_name in (_BLOCKWISE, _MULTI_AXIS):
        fields["blockwise"] = BlockwiseQuantization(
            tensor_of(details.get("scales")),
            tensor_of(details.get("zero_points")),
            details.get("block_size"),
            details.get("block_shape") or () if details.type_name == _BLOCKWISE else (),
            None if details.type_name == _BLOCKWISE else details.get("quantized_dimensions") or (),
        )
    elif details is not None:
        fields["custom"] = bytes(details.get("custom") or b"")
    quantization = Quantization(**fields)
    return None if quantization == Quantization() else quantization


def quantization_table(quantization: Quantization, index_of: IndexOf) -> Table:
    """Converts a quantization to a table of the schema."""
    fields: dict[str, Any] = {
        name: tuple(getattr(quantization, name)) or None
        for name in ("min", "max", "scale", "zero_point")
    }
    if quantization.blockwise is not None:
        fields["details"] = _details(quantization.blockwise, index_of)
    elif quantization.custom is not None:
        fields["details"] = Table.make("CustomQuantization", custom=quantization.custom)
    return Table.make(
        "QuantizationParameters", quantized_dimension=quantization.quantized_dimension, **fields
    )


def with_indices(table: Table, blockwise: BlockwiseQuantization, index_of: IndexOf) -> Table:
    """Returns a copy of a table from a file; the copy contains the current indices of tensors."""
    details: Table = table.get("details")
    return table.with_fields(details=details.with_fields(**_indices(blockwise, index_of)))


def _details(blockwise: BlockwiseQuantization, index_of: IndexOf) -> Table:
    fields = {**_indices(blockwise, index_of), "block_size": blockwise.block_size}
    if blockwise.quantized_dimensions is None:
        shape = tuple(blockwise.block_shape) or None
        return Table.make(_BLOCKWISE, **fields, block_shape=shape)
    dimensions = tuple(blockwise.quantized_dimensions)
    return Table.make(_MULTI_AXIS, **fields, quantized_dimensions=dimensions)


def _indices(blockwise: BlockwiseQuantization, index_of: IndexOf) -> dict[str, int]:
    tensors = {"scales": blockwise.scales, "zero_points": blockwise.zero_points}
    return {name: -1 if named is None else index_of(named) for name, named in tensors.items()}
