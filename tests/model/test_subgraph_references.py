"""Tests ops that refer to subgraphs, before and after subgraphs are removed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.positions import (
    CONTROL_DEPENDENCIES_KEY,
    reachable_subgraphs,
    read_control_dependencies,
    referenced_subgraphs,
    remove_subgraphs,
    set_control_dependencies,
)
from litert.model.reader import read_model
from litert.model.table import Table
from litert.model.writer import to_bytes

F32 = ("float32", (4,))

NAMING: dict[str, dict[str, Any]] = {
    "CALL": {"subgraph": 3},
    "CALL_ONCE": {"init_subgraph_index": 3},
    "IF": {"then_subgraph_index": 3, "else_subgraph_index": 5},
    "WHILE": {"cond_subgraph_index": 5, "body_subgraph_index": 3},
    "STABLEHLO_CASE": {"branch_subgraph_indices": [3, 5, 3]},
    "STABLEHLO_COMPOSITE": {"name": "acme.op", "decomposition_subgraph_index": 3},
    "STABLEHLO_CUSTOM_CALL": {"called_computations": [5]},
    "STABLEHLO_REDUCE": {"body_subgraph_index": 3},
    "STABLEHLO_REDUCE_WINDOW": {"body_subgraph_index": 3},
    "STABLEHLO_SCATTER": {"update_computation_subgraph_index": 3},
    "STABLEHLO_SORT": {"comparator_subgraph_index": 3},
    "STABLEHLO_WHILE": {"cond_subgraph_index": 3, "body_subgraph_index": 5},
}


def with_subgraphs(count: int) -> ModelBuilder:
    """Returns the builder of a model with a main subgraph and others, which have numbers as names."""
    b = ModelBuilder()
    for index in range(1, count):
        other = b.subgraph(str(index))
        x = other.input("x", *F32)
        other.output(other.op("ABS" if index % 2 else "NEG", [x], [("y", *F32)]))
    return b


@pytest.mark.parametrize("name", NAMING)
def test_each_op_that_names_subgraphs_names_them_anew(name: str) -> None:
    b = with_subgraphs(6)
    x = b.input("x", *F32)
    b.output(b.op(name, [x], [("y", *F32)], **NAMING[name]))
    model = b.build()
    (op,) = model.subgraphs[0].ops
    before = [model.subgraphs[index].name for index in referenced_subgraphs(op)]
    assert set(before) <= {"3", "5"} and before
    remove_subgraphs(model, [1, 4])
    model = read_model(to_bytes(model))
    (op,) = model.subgraphs[0].ops
    assert [model.subgraphs[index].name for index in referenced_subgraphs(op)] == before


def test_what_names_no_subgraph_stays_as_it_is() -> None:
    b = with_subgraphs(3)
    x = b.input("x", *F32)
    y = b.op("STABLEHLO_COMPOSITE", [x], [("y", *F32)], name="a", decomposition_subgraph_index=-1)
    b.output(b.op("ADD", [y, x], [("z", *F32)]))
    model = b.build()
    composite, add = model.subgraphs[0].ops
    kept = composite.options_2, add.options
    remove_subgraphs(model, [1])
    assert (composite.options_2, add.options) == kept
    assert list(referenced_subgraphs(add)) == [] and list(referenced_subgraphs(composite)) == [-1]


@given(st.sets(st.integers(1, 5)))
def test_signatures_and_control_dependencies_follow(gone: set[int]) -> None:
    b = with_subgraphs(6)
    model: Model = b.build()
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(b""))
    set_control_dependencies(model, [[(0, index)] for index in range(6)])
    names = [subgraph.name for index, subgraph in enumerate(model.subgraphs) if index not in gone]
    remove_subgraphs(model, gone)
    assert [subgraph.name for subgraph in model.subgraphs] == names
    kept = [index for index in range(6) if index not in gone]
    assert read_control_dependencies(model) == [[(0, index)] for index in kept]


@pytest.mark.parametrize(
    "data",
    [b"", b"\2\6", b"\1\2", b"\1\3\1\0\1\0\0", b"\1\3\0\0\0\0", b"\1\3\x80", b"\x80" * 9],
    ids=["empty", "version", "subgraphs", "negative", "more", "cut", "wide"],
)  # fmt: skip
def test_control_dependencies_that_make_no_sense_are_none(data: bytes) -> None:
    model = with_subgraphs(3).build()
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(data))
    assert read_control_dependencies(model) == [[], [], []]


def test_subgraphs_are_reached_through_others() -> None:
    b = ModelBuilder()
    for index, called in ((1, 3), (2, 1), (3, 1)):
        other = b.subgraph(str(index))
        other.output(other.op("CALL", [other.input("x", *F32)], [("y", *F32)], subgraph=called))
    x = b.input("x", *F32)
    b.output(b.op("CALL", [x], [("y", *F32)], subgraph=1))
    model = b.build()
    assert reachable_subgraphs(model, model.subgraphs[0].ops[0]) == {1, 3}


def test_options_without_subgraphs_stay_when_others_go() -> None:
    b = with_subgraphs(3)
    x = b.input("x", *F32)
    b.output(b.op("STABLEHLO_CASE", [x], [("y", *F32)]))
    model = b.build()
    (op,) = model.subgraphs[0].ops
    op.options = Table.make("CallOptions", subgraph=2)
    remove_subgraphs(model, [1])
    assert op.options.get("subgraph") == 1 and list(referenced_subgraphs(op)) == [1]
