"""Tests custom options in FlexBuffer format, and how the reader distinguishes them from C structs."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.model.custom_options import (
    as_flex_value,
    find_flexbuffer_options,
    write_flexbuffer_options,
)

SINH = bytes(flexbuffers.Dumps({"T": 0}))


def test_a_map_is_found() -> None:
    assert find_flexbuffer_options(SINH) == {"T": 0}


def test_a_tensorflow_op_has_a_vector() -> None:
    data = bytes(flexbuffers.Dumps(["AddV2", "node"]))
    assert find_flexbuffer_options(data) == ("AddV2", "node")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        struct.pack("<3i", 1, 2, 2),  # TfLiteTransposeConvParams
        struct.pack("<10i", 1, 2, 2, 2, 2, 0, 0, 0, 0, 0),  # TfLitePoolParams
        struct.pack("<i4?", 7, False, False, True, True),  # ends like a FlexBuffer
        struct.pack("<i2B2?", 5, 1, 4, True, True),  # like an int as the root, in one byte
        bytes((0, 0, 0, 1, 0, 1)),  # like null as the root, in one byte
        struct.pack("<f", 1.5),
        b"\0\0\x28\1",  # like an empty vector as the root
    ],
    ids=["none", "transpose conv", "pool", "bools", "an int", "null", "float", "empty vector"],
)
def test_a_struct_is_not_taken_for_a_flexbuffer(data: bytes) -> None:
    assert find_flexbuffer_options(data) is None


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=12), st.lists(st.booleans()))
def test_no_struct_of_small_numbers_is_taken_for_a_flexbuffer(
    numbers: list[int], flags: list[bool]
) -> None:
    data = struct.pack(f"<{len(numbers)}i{len(flags)}?", *numbers, *flags)
    assert find_flexbuffer_options(data) is None


KEYS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def as_read(value: object) -> object:
    if isinstance(value, list):
        return tuple(as_read(v) for v in value)
    return {k: as_read(v) for k, v in value.items()} if isinstance(value, dict) else value


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_a_map_comes_back_as_it_was_written(options: dict[str, object]) -> None:
    found = find_flexbuffer_options(write_flexbuffer_options(options))
    assert found == as_read(options)


def test_numbers_of_numpy_and_enums_are_written_as_numbers() -> None:
    options = {
        "f": np.float32(0.5),
        "i": np.int64(-3),
        "b": np.bool_(True),
        "a": np.array([[1, 2], [3, 4]], np.int8),
        "t": ElementType.INT8,
    }
    found = find_flexbuffer_options(write_flexbuffer_options(options))
    assert found == {"f": 0.5, "i": -3, "b": True, "a": ((1, 2), (3, 4)), "t": 9}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"size": 2**63}, "option 'size' is 9223372036854775808, which has more than 64 bits"),
        ({"phase": 1 + 2j}, "option 'phase' is (1+2j), and a FlexBuffer cannot hold this type"),
        ({"taps": [1, {2}]}, "option 'taps'[1] is {2}, and"),
        ({"sub": {"f": print}}, "option 'sub' 'f' is <built-in"),
        ({"text": "\ud800"}, "option 'text' is '\\ud800', which is not UTF-8"),
        ({"a\0b": 1}, "'a\\x00b' is not a valid name of an option"),
        ({"": 1}, "'' is not a valid name of an option"),
        ({3: 1}, "3 is not a valid name of an option"),
        ({"sub": {1: 1}}, "1 is not a valid name in option 'sub'"),
    ],
)
def test_what_a_flexbuffer_cannot_hold_is_refused_by_name(
    options: dict[str, object], says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        write_flexbuffer_options(options, "op 'Foo'")
    assert says in error.value.what and error.value.where == "op 'Foo'" and error.value.hint


def test_a_list_in_itself_is_refused() -> None:
    taps: list[object] = []
    taps.append(taps)
    with pytest.raises(LiteRtError, match=r"is nested more than 32 levels deep"):
        write_flexbuffer_options({"taps": taps})


@pytest.mark.parametrize("data", [b"\1\2", bytearray(b"\1\2"), memoryview(b"\1\2")])
def test_bytes_of_all_kinds_are_bytes(data: object) -> None:
    assert as_flex_value(data, "data") == b"\1\2"
