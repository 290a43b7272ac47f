"""Tests options of custom ops that are C structs."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.raw_options import (
    RAW_FORMATS,
    RawField,
    raw_fields,
    read_raw_fields,
    write_raw_fields,
)

STRUCT = raw_fields(("axis", "int32"), ("flag", "bool"), ("beta", "float32"), ("perm", "int16", 3))


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
        RawField("x", ElementType.INT32, 0, 4),
        RawField("x", ElementType.INT32, 0, 0),
        RawField("x", ElementType.INT4, 0),
        RawField("x", ElementType.STRING, 0),
    ],
    ids=["past the end", "before the start", "too many", "none", "int4", "text"],
)
def test_a_field_that_is_not_there_is_refused(field: RawField) -> None:
    with pytest.raises(LiteRtError) as error:
        read_raw_fields(bytes(12), [field], "op 3")
    assert error.value.status is Status.INVALID_ARGUMENT
    assert error.value.where == "op 3" and error.value.hint


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(RAW_FORMATS)), st.none() | st.integers(1, 4)), min_size=1
    )
)
def test_fields_lie_where_a_compiler_puts_them(
    declared: list[tuple[ElementType, int | None]],
) -> None:
    fields = raw_fields(
        *((f"f{i}", kind) if n is None else (f"f{i}", kind, n) for i, (kind, n) in enumerate(declared))
    )  # fmt: skip
    codes = [f"{n or 1}{RAW_FORMATS[kind]}" for kind, n in declared]
    for i, field in enumerate(fields):
        native = "@" + "".join(codes[:i])
        assert field.offset == struct.calcsize(f"{native}0{codes[i][-1]}")
    values = {f.name: False if f.count is None else [False] * f.count for f in fields}
    numbers = {
        f.name: values[f.name]
        if f.element_type is ElementType.BOOL
        else (0 if f.count is None else [0] * f.count)
        for f in fields
    }
    widest = max((kind for kind, _ in declared), key=lambda kind: kind.bits)
    sizeof = struct.calcsize("@" + "".join(codes) + f"0{RAW_FORMATS[widest]}")
    assert len(write_raw_fields(numbers, fields)) == sizeof


def test_a_struct_is_written_and_read_back() -> None:
    values = {"axis": np.int64(-2), "flag": True, "beta": 0.25, "perm": np.array([2, 0, 1])}
    data = write_raw_fields(values, STRUCT)
    assert data == struct.pack("<i?3xf3h2x", -2, True, 0.25, 2, 0, 1)
    assert read_raw_fields(data, STRUCT) == {
        "axis": -2, "flag": True, "beta": 0.25, "perm": (2, 0, 1),
    }  # fmt: skip


def test_bytes_that_no_field_has_stay() -> None:
    before = bytes(range(1, 25))
    data = write_raw_fields({"axis": 7}, STRUCT[:1], before)
    assert data == struct.pack("<i", 7) + before[4:]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"axis": 2**31}, "field 'axis' has type int32, which cannot hold 2147483648"),
        ({"axis": 1.5}, "field 'axis' has type int32, which cannot hold 1.5"),
        ({"axis": True}, "field 'axis' has type int32, which cannot hold True"),
        ({"axis": "1"}, "field 'axis' has type int32, which cannot hold '1'"),
        ({"axis": None}, "the field 'axis' of the C struct has no value"),
        ({"beta": 1e39}, "field 'beta' has type float32, which cannot hold 1e+39"),
        ({"flag": 2}, "field 'flag' has type bool, which cannot hold 2"),
        (
            {"perm": [1, 2]},
            "field 'perm' must have 3 elements of type int16, but the value is [1, 2]",
        ),
        ({"perm": 5}, "field 'perm' must have 3 elements of type int16, but the value is 5"),
        ({"perm": [1, 2, 40000]}, "field 'perm' has type int16, which cannot hold 40000"),
        ({"other": 1}, "the C struct has no field 'other'"),
    ],
)
def test_a_value_that_a_field_cannot_hold_is_refused(changes: dict[str, object], says: str) -> None:
    values = {"axis": 0, "flag": False, "beta": 0, "perm": (0, 0, 0), **changes}
    with pytest.raises(LiteRtError) as error:
        write_raw_fields(values, STRUCT, where="op 'Foo'")
    assert says in error.value.what and error.value.where == "op 'Foo'"


@pytest.mark.parametrize("type_name", ["int4", "string", "float", ElementType.BFLOAT16])
def test_a_type_that_no_field_has_is_refused(type_name: ElementType | str) -> None:
    with pytest.raises(LiteRtError, match="Use one of bool, int8"):
        raw_fields(("x", type_name))
