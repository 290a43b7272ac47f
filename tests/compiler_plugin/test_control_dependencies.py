"""Tests the extra op order in a model's metadata: it is read, partitions respect it, and it moves with the ops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_plugin.commands import partition_model
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.positions import (
    CONTROL_DEPENDENCIES_KEY,
    Edge,
    read_control_dependencies,
    set_control_dependencies,
)
from litert.model.reader import read_model
from litert.model.writer import write_model

F32 = ("float32", (4,))


def parallel(*names: str, subgraphs: int = 1) -> Model:
    """Returns a model with ops that all read x, in this order."""
    b = ModelBuilder()
    for index in range(subgraphs):
        builder = b if index == 0 else b.subgraph(f"other{index}")
        x = builder.input("x", *F32)
        builder.output(*(builder.custom(n, [x], [(f"t{i}", *F32)]) for i, n in enumerate(names)))
    b.metadata(CONTROL_DEPENDENCIES_KEY, b"")
    return b.build()


def test_the_format_is_the_converters() -> None:
    model = parallel("A", "B")
    set_control_dependencies(model, [[(0, 1), (1, 300)]])
    # version 1; one subgraph; two edges; 0, 1; 1, 300 (zigzag, varints)
    assert model.find_metadata(CONTROL_DEPENDENCIES_KEY).view == bytes(  # type: ignore[union-attr]
        [1, 1, 2, 0, 2, 2, 0xD8, 0x04]
    )
    assert read_control_dependencies(model) == [[(0, 1), (1, 300)]]


@given(st.lists(st.sets(st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20))), max_size=3))
def test_what_is_written_is_read(edges: list[set[Edge]]) -> None:
    model = parallel("A", subgraphs=max(1, len(edges)))
    set_control_dependencies(model, edges)
    padded = edges or [set()]
    assert read_control_dependencies(model) == [sorted(some) for some in padded]


@given(st.binary(max_size=20))
def test_damaged_metadata_are_as_if_they_were_not_there(data: bytes) -> None:
    model = parallel("A", subgraphs=2)
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(data))
    assert len(read_control_dependencies(model)) == 2


@pytest.mark.parametrize("run", [apply_plugin, partition_model], ids=["apply", "partition"])
def test_edges_keep_ops_apart_and_follow_them(
    fake_options: Callable[..., ApplyOptions],
    tmp_path: Path,
    run: Callable[[Path, Path, ApplyOptions], object],
) -> None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    a = b.custom("Npu", [x], [("a", *F32)])
    c = b.op("ABS", [x], [("c", *F32)])
    d = b.custom("Npu", [a], [("d", *F32)])
    b.output(c, d, b.op("NEG", [x], [("e", *F32)]))
    b.metadata(CONTROL_DEPENDENCIES_KEY, b"")
    model = b.build()
    set_control_dependencies(model, [[(0, 1), (1, 2), (2, 3)]])
    write_model(model, tmp_path / "in.tflite")
    run(tmp_path / "in.tflite", tmp_path / "out.tflite", fake_options(fake_ops="Npu"))
    with read_model(tmp_path / "out.tflite") as model:
        assert [op.name for op in model.subgraphs[0].ops] == [
            "DISPATCH_OP",
            "ABS",
            "DISPATCH_OP",
            "NEG",
        ]
        assert read_control_dependencies(model)[0] == [(0, 1), (1, 2), (2, 3)]
    without = read_model(tmp_path / "in.tflite")
    set_control_dependencies(without, [[(1, 3), (2, 3)]])
    write_model(without, tmp_path / "two.tflite")
    run(tmp_path / "two.tflite", tmp_path / "out.tflite", fake_options(fake_ops="Npu"))
    with read_model(tmp_path / "out.tflite") as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["ABS", "DISPATCH_OP", "NEG"]
        assert read_control_dependencies(model)[0] == [(0, 2), (1, 2)]
