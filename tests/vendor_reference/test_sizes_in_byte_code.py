"""Tests that sizes survive an executable's JSON, and that other values are not read as sizes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.sizes import ARITHMETIC, Dimension, Operation, Size
from litert.core.status import Status
from vendor_reference.executable.byte_code import SIZE

SIZES = st.recursive(
    st.one_of(st.integers(0, 9), st.builds(Dimension, st.integers(0, 3), st.integers(0, 15))),
    lambda inner: st.builds(Operation, st.sampled_from(list(ARITHMETIC)), inner, inner),
    max_leaves=8,
)


@given(SIZES)
def test_a_size_survives_json(size: Size) -> None:
    text = json.dumps(SIZE.dump(size)).encode()
    assert SIZE.read(JsonNode.parse(text, "here", Status.SERIALIZATION)) == size


@pytest.mark.parametrize(
    "value", [-1, 1.5, "x", None, [], [1], ["^", 1, 2], [0, 16], [-1, 0], ["+", 1], [[0, 0], 1, 2]]
)
def test_json_that_is_no_size_is_refused(value: object) -> None:
    text = json.dumps(value).encode()
    with pytest.raises(LiteRtError) as error:
        SIZE.read(JsonNode.parse(text, "here", Status.SERIALIZATION))
    assert error.value.status is Status.SERIALIZATION


def test_a_deep_size_is_refused() -> None:
    text = ('["+",1,' * 900 + "1" + "]" * 900).encode()
    with pytest.raises(LiteRtError) as error:
        SIZE.read(JsonNode.parse(text, "here", Status.SERIALIZATION))
    assert "nested operations" in error.value.what
