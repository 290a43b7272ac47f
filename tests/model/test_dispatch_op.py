"""Tests the options of `DISPATCH_OP`."""

from __future__ import annotations

import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.dispatch_op import (
    DispatchOptions,
    find_byte_code,
    read_dispatch_options,
    write_dispatch_options,
)

STOCK = bytes.fromhex(  # from a model that stock's apply_plugin_main compiled
    "62797465636f64655f73697a650062797465636f64655f6f6666736574006e616d65000b506172746974696f"
    "6e5f300003000000000000002a0000000000000040000000000000002a000000000000001800000000000000"
    "0800000000000000030000000000000080040000000000009c1600000000000054000000000000000b0b141b"
    "2701"
)
OPTIONS = DispatchOptions(bytecode_offset=1152, bytecode_size=5788, name="Partition_0")


def test_stock_writes_the_same_bytes() -> None:
    assert write_dispatch_options(OPTIONS) == STOCK
    assert read_dispatch_options(STOCK) == OPTIONS


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)
def test_options_come_back_as_they_were(offset: int, size: int, name: str) -> None:
    options = DispatchOptions(offset, size, name)
    data = write_dispatch_options(options)
    assert read_dispatch_options(data) == options
    assert flexbuffers.Loads(data) == {
        "bytecode_offset": offset,
        "bytecode_size": size,
        "name": name,
    }


@pytest.mark.parametrize("length", [0, 7, 255, 256, 65535, 65536])
def test_a_name_of_any_length_gives_the_bytes_of_the_flatbuffers_package(length: int) -> None:
    builder = flexbuffers.Builder(force_min_bit_width=flexbuffers.BitWidth.W64)
    with builder.Map():
        builder.UInt("bytecode_size", 2)
        builder.UInt("bytecode_offset", 1)
        builder.String("name", "x" * length)
    assert write_dispatch_options(DispatchOptions(1, 2, "x" * length)) == builder.Finish()


def test_the_size_of_options_depends_on_the_name_alone() -> None:
    sizes = {len(write_dispatch_options(DispatchOptions(n, n, "f"))) for n in (0, 1, 2**63)}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    "data",
    [b"", STOCK[:-1], b"\0" * 250, flexbuffers.Dumps({"name": "x"}), flexbuffers.Dumps([1])],
    ids=["empty", "cut", "zeros", "keys missing", "no map"],
)
def test_options_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(LiteRtError) as error:
        read_dispatch_options(data, "model.tflite, op 3")
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert error.value.where == "model.tflite, op 3"


def test_a_call_name_with_a_zero_byte_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        write_dispatch_options(DispatchOptions(0, 0, "a\0b"))
    assert error.value.status is Status.INVALID_ARGUMENT


def test_byte_code_is_found_where_the_options_say() -> None:
    blob = find_byte_code(Blob(b"0123456789"), DispatchOptions(4, 3, "f"))
    assert bytes(blob) == b"456" and blob.offset == 4


@pytest.mark.parametrize(("offset", "size"), [(0, 4), (4, 0), (4, 7), (2**64 - 1, 2**64 - 1)])
def test_byte_code_outside_the_file_is_refused(offset: int, size: int) -> None:
    with pytest.raises(LiteRtError) as error:
        find_byte_code(Blob(b"0123456789"), DispatchOptions(offset, size, "f"), "model.bin")
    assert error.value.status is Status.INVALID_FLATBUFFER and error.value.hint
