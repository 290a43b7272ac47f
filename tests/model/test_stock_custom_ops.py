"""Tests the list of custom ops that stock's CPU runs against stock's libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from litert.model import stock_custom_ops
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.stock_custom_ops import find_not_runnable
from litert.model.writer import to_bytes


@pytest.mark.parametrize("name", [*sorted(stock_custom_ops._STOCK_CUSTOM_OPS), "Nobody"])
def test_stock_s_library_knows_the_names(name: str) -> None:
    """Searches the libraries for the names only, as each kernel requires its own inputs and options."""
    package = pytest.importorskip("ai_edge_litert")
    libraries = [p for p in Path(package.__file__).parent.glob("*.so*") if p.is_file()]
    is_there = any(name.encode() + b"\0" in library.read_bytes() for library in libraries)
    assert is_there == (name != "Nobody")


def test_ops_are_named_that_nothing_runs() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    y = b.custom(
        "MaxUnpooling2D", [b.op("NEG", [x], [("n", "float32", (4,))])], [("y", "float32", (4,))]
    )
    b.output(b.custom("Nobody", [y], [("z", "float32", (4,))]))
    with read_model(to_bytes(b.build())) as model:
        assert find_not_runnable(model) == ["Nobody"]
