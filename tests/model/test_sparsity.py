"""Tests the conversion of sparse constants to dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.sparsity import dense_data, densify, find_sparsity_mistake
from litert.model.table import Table


def matrix(**changes: Any) -> Tensor:
    """Returns the sparse int8 matrix [[0, 5, 0, 6], [0, 0, 0, 0], [7, 0, 0, 0]], stored by rows."""
    parts: dict[str, Any] = {
        "order": (0, 1),
        "rows": 3,
        "segments": (0, 2, 2, 3),
        "columns": (1, 3, 0),
    }
    parts |= {"values": (5, 6, 7), **changes}
    columns = Table.make(
        "DimensionMetadata",
        format=1,
        array_segments_type=1,
        array_segments=Table.make("Int32Vector", values=parts["segments"]),
        array_indices_type=1,
        array_indices=Table.make("Int32Vector", values=parts["columns"]),
    )
    rows = Table.make("DimensionMetadata", dense_size=parts["rows"])
    sparsity = Table.make(
        "SparsityParameters", traversal_order=parts["order"], dim_metadata=[rows, columns]
    )
    b = ModelBuilder()
    return b.constant("c", bytes(parts["values"]), "int8", (3, 4), sparsity=sparsity)


def test_what_is_not_stored_is_zero() -> None:
    dense = np.frombuffer(densify(matrix()), np.int8).reshape(3, 4)
    assert dense.tolist() == [[0, 5, 0, 6], [0, 0, 0, 0], [7, 0, 0, 0]]
    assert find_sparsity_mistake(matrix()) == ""


def test_a_constant_is_decoded_again_only_where_it_is_another() -> None:
    tensor = matrix()
    dense = densify(tensor)
    assert densify(tensor) is dense
    tensor.sparsity = matrix(columns=(0, 3, 0)).sparsity
    assert np.frombuffer(densify(tensor), np.int8).tolist()[:4] == [5, 0, 0, 6]
    tensor.buffer = matrix(values=(8, 9, 7)).buffer
    assert np.frombuffer(densify(tensor), np.int8).tolist()[:4] == [8, 0, 0, 9]


@pytest.mark.parametrize(
    "changes",
    [
        {"order": (0, 2)},
        {"rows": 4},
        {"rows": 2**31 - 1},
        {"rows": -1},
        {"segments": (0, 2)},
        {"segments": (0, 3, 2, 3)},
        {"segments": (0, 2, 2, 9)},
        {"segments": (0, 13, 13, 13), "columns": tuple(range(13))},
        {"columns": (1, 4, 0)},
        {"columns": (-1, 3, 0)},
        {"values": (5, 6)},
    ],
    ids=str,
)
def test_a_tree_that_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    tensor = matrix(**changes)
    with pytest.raises(LiteRtError) as error:
        densify(tensor)
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert find_sparsity_mistake(tensor) == error.value.what


def test_blocks_are_put_where_they_belong() -> None:
    """The matrix is a row of two blocks with two elements each; only the second block is stored."""
    dense = [Table.make("DimensionMetadata", dense_size=size) for size in (1, 2)]
    columns = Table.make(
        "DimensionMetadata",
        format=1,
        array_segments_type=3,
        array_segments=Table.make("Uint8Vector", values=b"\0\1"),
        array_indices_type=3,
        array_indices=Table.make("Uint8Vector", values=b"\1"),
    )
    sparsity = Table.make(
        "SparsityParameters",
        traversal_order=(0, 1, 2),
        block_map=(1,),
        dim_metadata=[dense[0], columns, dense[1]],
    )
    tensor = ModelBuilder().constant("c", b"\5\6", "int8", (1, 4), sparsity=sparsity)
    assert bytes(dense_data(tensor)) == b"\0\0\5\6"
    tensor.sparsity = None
    assert bytes(dense_data(tensor)) == b"\5\6"


def test_elements_smaller_than_a_byte_are_refused() -> None:
    sparsity = matrix().sparsity
    tensor = ModelBuilder().constant("c", b"\5", "int4", (2,), sparsity=sparsity)
    assert find_sparsity_mistake(tensor) == "a sparse constant: the elements have type INT4"


def test_a_level_without_its_parts_is_refused() -> None:
    levels = [
        Table.make("DimensionMetadata", dense_size=3),
        Table.make("DimensionMetadata", format=1),
    ]
    sparsity = Table.make("SparsityParameters", traversal_order=(0, 1), dim_metadata=levels)
    tensor = ModelBuilder().constant("c", b"\5", "int8", (3, 4), sparsity=sparsity)
    assert (
        find_sparsity_mistake(tensor)
        == "a sparse constant: the metadata of a dimension has no array_segments"
    )
