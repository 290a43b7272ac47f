"""Options of custom ops: FlexBuffer or C struct."""

from __future__ import annotations

import struct

import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.custom_options import RawField, find_flexbuffer_options, read_raw_fields

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
        struct.pack("<i2B2?", 5, 1, 4, True, True),  # a root of one byte, an int
        bytes((0, 0, 0, 1, 0, 1)),  # the null of one byte
        struct.pack("<f", 1.5),
        b"\0\0\x28\1",  # the vector without elements
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


def test_fields_of_a_struct_are_read() -> None:
    data = struct.pack("<iB3xfqd?e", -1, 200, 0.5, -(2**40), 0.1, True, 1.5)
    fields = [
        RawField("a", ElementType.INT32, 0),
        RawField("b", ElementType.UINT8, 4),
        RawField("c", ElementType.FLOAT32, 8),
        RawField("d", ElementType.INT64, 12),
        RawField("e", ElementType.FLOAT64, 20),
        RawField("f", ElementType.BOOL, 28),
        RawField("g", ElementType.FLOAT16, 29),
    ]
    assert read_raw_fields(data, fields) == {
        "a": -1, "b": 200, "c": 0.5, "d": -(2**40), "e": 0.1, "f": True, "g": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "field",
    [
        RawField("x", ElementType.INT32, 9),
        RawField("x", ElementType.INT32, -4),
        RawField("x", ElementType.INT4, 0),
        RawField("x", ElementType.STRING, 0),
    ],
    ids=["past the end", "before the start", "int4", "text"],
)
def test_a_field_that_is_not_there_is_refused(field: RawField) -> None:
    with pytest.raises(LiteRtError) as error:
        read_raw_fields(bytes(12), [field], "op 3")
    assert error.value.status is Status.INVALID_ARGUMENT
    assert error.value.where == "op 3" and error.value.hint
