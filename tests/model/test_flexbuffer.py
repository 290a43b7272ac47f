"""Tests the strict FlexBuffer reader."""

from __future__ import annotations

import math
from typing import Any

import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.flexbuffer import read_flexbuffer

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(width=32, allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
    | st.binary(max_size=20)
)
KEYS = st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=12
)


def as_read(value: Any) -> Any:
    """Returns a value with tuples instead of lists, like the reader."""
    if isinstance(value, list):
        return tuple(as_read(item) for item in value)
    if isinstance(value, dict):
        return {key: as_read(item) for key, item in value.items()}
    return value


@given(VALUES)
def test_what_flatbuffers_writes_is_read(value: Any) -> None:
    data = bytes(flexbuffers.Dumps(value))
    assert read_flexbuffer(data) == as_read(value) == read_flexbuffer(data, is_whole=True)


def test_all_kinds_of_values_are_read() -> None:
    builder = flexbuffers.Builder(share_strings=True)
    with builder.Map():
        builder.IndirectInt("ii", -5)
        builder.IndirectUInt("iu", 2**40)
        builder.IndirectFloat("if", 0.1)
        builder.FixedTypedVectorFromElements("f2", [1.5, 2.5])
        builder.FixedTypedVectorFromElements("i3", [1, -2, 3], flexbuffers.Type.INT)
        builder.FixedTypedVectorFromElements("u4", [1, 2, 3, 4], flexbuffers.Type.UINT)
        builder.TypedVectorFromElements("keys", ["a", "b"], flexbuffers.Type.KEY)
        builder.TypedVectorFromElements("bools", [True, False])
        builder.String("s", "same")
        builder.String("t", "same")
    data = bytes(builder.Finish())
    value = read_flexbuffer(data)
    assert value == {
        "ii": -5,
        "iu": 2**40,
        "if": 0.1,
        "f2": (1.5, 2.5),
        "i3": (1, -2, 3),
        "u4": (1, 2, 3, 4),
        "keys": ("a", "b"),
        "bools": (True, False),
        "s": "same",
        "t": "same",
    }
    assert read_flexbuffer(data, is_whole=True) == read_flexbuffer(data)


@given(VALUES, st.data())
def test_damaged_bytes_give_a_value_or_an_error(value: Any, data: st.DataObject) -> None:
    damaged = bytearray(flexbuffers.Dumps(value))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        read_flexbuffer(bytes(damaged))
    except LiteRtError as error:
        assert error.status is Status.INVALID_FLATBUFFER


@given(st.binary(max_size=64))
def test_any_bytes_give_a_value_or_an_error(data: bytes) -> None:
    try:
        read_flexbuffer(data)
    except LiteRtError as error:
        assert error.status is Status.INVALID_FLATBUFFER


def nested(levels: int) -> bytes:
    """Returns nested vectors, which flexbuffers.Dumps cannot write at this depth, as it recurses."""
    out = bytearray(b"\0")  # the innermost vector is empty
    at = len(out)
    for _ in range(levels):
        out += b"\1"
        start = len(out)
        out += bytes((start - at, 10 << 2))
        at = start
    out += bytes((len(out) - at, 10 << 2, 1))
    return bytes(out)


def test_a_deep_buffer_is_refused() -> None:
    assert read_flexbuffer(nested(60))
    with pytest.raises(LiteRtError, match="levels"):
        read_flexbuffer(nested(1000))


def test_a_small_buffer_cannot_stand_for_a_huge_value() -> None:
    # Each of 40 vectors contains the previous one four times: without a limit, 4^40 values.
    out = bytearray(b"\0")
    at = len(out)
    for _ in range(40):
        out += b"\4"
        start = len(out)
        out += bytes(start + i - at for i in range(4)) + bytes([10 << 2] * 4)
        at = start
    out += bytes((len(out) - at, 10 << 2, 1))
    with pytest.raises(LiteRtError, match="overlap"):
        read_flexbuffer(bytes(out))


def test_bytes_that_are_left_over_are_noticed() -> None:
    data = bytes(flexbuffers.Dumps({"a": 1}))
    assert read_flexbuffer(data, is_whole=True) == {"a": 1}
    for front in (b"\1\2\3\4", b"\0" * 8):
        assert read_flexbuffer(front + data) == {"a": 1}
        with pytest.raises(LiteRtError, match="do not belong to any value"):
            read_flexbuffer(front + data, is_whole=True)


def test_floats_keep_their_value() -> None:
    assert read_flexbuffer(bytes(flexbuffers.Dumps(0.1))) == 0.1
    assert math.isinf(float(read_flexbuffer(bytes(flexbuffers.Dumps(math.inf)))))  # type: ignore[arg-type]


MAP = b"a\0" + b"\1\3" + b"\1\1\1\5\4" + b"\2\x24\1"
"""{"a": 5}: the key, the vector of keys, the map, and the root."""


def test_a_map_by_hand_is_read() -> None:
    assert read_flexbuffer(MAP) == {"a": 5}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\1", "1 bytes are too few"),
        (b"\0\4\3", "the root has the invalid width 3"),
        (b"\1\1\x14\1", "the value at -1 to 0 exceeds the 4 bytes"),
        (b"\x09ab\0\3\x14\1", "the value at 0 to 11 exceeds the 7 bytes"),
        (b"\0\0\1\x2a\1", "the value at 1 is not aligned to 4 bytes"),
        (b"\3\0\1", "a null has the value 3"),
        (b"\0\x0c\1", "a float has the invalid width 1"),
        (MAP[:5] + b"\3" + MAP[6:], "has an invalid list of keys at 3, of width 3"),
        (MAP[:6] + b"\0" + MAP[7:], "has 1 keys, but 0 values"),
        (b"a\0\2\3\4\2\1\2\1\1\4\4\4\x24\1", "has unsorted keys"),
        (b"\0\0\1\x6c\1", "type 27"),
        (b"\1ab\2\x14\1", "lacks a zero at its end"),
        (b"a\1\x10\1", "the key at 0 lacks an end"),
        (b"\1\xff\0\2\x14\1", "the string at 1 is not UTF-8"),
    ],
)
def test_bytes_that_no_builder_writes_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read_flexbuffer(data, "op 1")
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert says in error.value.what and error.value.where == "op 1"
