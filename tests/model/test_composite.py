"""Tests how the name and the attributes of composite ops are read."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from litert.model.builder import ModelBuilder
from litert.model.composite import Composite, read_composite
from litert.model.custom_options import write_flexbuffer_options

F32 = ("float32", (4,))


def composite_of(attributes: bytes | None) -> Composite | None:
    b = ModelBuilder()
    x = b.input("x", *F32)
    options: dict[str, Any] = {} if attributes is None else {"composite_attributes": attributes}
    b.output(b.op("STABLEHLO_COMPOSITE", [x], [("y", *F32)], name="acme.op", **options))
    return read_composite(b.build().subgraphs[0].ops[0])


def test_a_composite_has_a_map_of_attributes_or_none() -> None:
    whole = Composite("acme.op", 0)
    assert composite_of(None) == whole and composite_of(b"") == whole
    assert composite_of(write_flexbuffer_options({"epsilon": 1e-5})) == whole
    assert composite_of(b"{}") is None and composite_of(b"\x05\x04\x01") is None


@given(st.binary(max_size=40))
def test_no_attributes_are_an_error(attributes: bytes) -> None:
    assert composite_of(attributes) in (None, Composite("acme.op", 0))
