"""Tests the container of byte code and assets."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import Asset
from litert.model.blob import Blob, MappedFile
from litert.model.byte_code_container import carried_assets, is_container, pack, unpack
from litert.model.graph import Appended, Model

ASSETS = [
    Asset("MyOp", "", Blob(b"kernel void MyOp() {}")),
    Asset("MyOp", "lib/common.h", Blob(b"")),
    Asset("über/op", "", Blob(bytes(range(100)))),
]
PACKED = pack(Blob(b"byte code"), ASSETS)


def contents(module: Blob) -> tuple[bytes, list[tuple[str, str, bytes]]]:
    byte_code, assets = unpack(module)
    return bytes(byte_code), [(a.op_name, a.companion_path, bytes(a.blob)) for a in assets]


def test_what_goes_in_comes_out() -> None:
    assert is_container(Blob(PACKED))
    assert contents(Blob(PACKED)) == (
        b"byte code",
        [(a.op_name, a.companion_path, bytes(a.blob)) for a in ASSETS],
    )


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(st.binary(), st.dictionaries(names, st.binary(), max_size=4))
def test_any_byte_code_and_assets_survive(byte_code: bytes, files: dict[str, bytes]) -> None:
    packed = pack(Blob(byte_code), [Asset(name, "", Blob(data)) for name, data in files.items()])
    assert contents(Blob(packed)) == (byte_code, [(n, "", d) for n, d in files.items()])


def test_each_part_begins_at_a_multiple_of_64() -> None:
    byte_code, assets = unpack(Blob(PACKED))
    for blob in (byte_code, *(asset.blob for asset in assets if asset.blob.size)):
        assert PACKED.index(bytes(blob)) % 64 == 0


def test_other_byte_code_is_left_as_it_is() -> None:
    for data in (b"", b"\x93", b"\x93LITNPU", b"RNPU executable", PACKED[1:]):
        module = Blob(data)
        assert unpack(module) == (module, ())


def test_parts_of_a_file_lie_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "module"
    path.write_bytes(b"abc" + PACKED)  # stock's compiler also writes modules at odd offsets
    with MappedFile(path) as file:
        byte_code, assets = unpack(file.blob(3))
        for blob in (byte_code, *(asset.blob for asset in assets)):
            assert blob.file is file
            assert bytes(file.view[blob.offset : blob.offset + blob.size]) == bytes(blob)


@pytest.mark.parametrize("end", range(8, len(PACKED), 7))
def test_a_cut_container_is_refused(end: int) -> None:
    with pytest.raises(LiteRtError) as error:
        unpack(Blob(PACKED[:end]), "model.tflite")
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert error.value.where == "model.tflite" and error.value.hint


def test_another_version_is_refused() -> None:
    with pytest.raises(
        LiteRtError, match="version 2, but this version of litert-npu reads only version 1"
    ) as error:
        unpack(Blob(PACKED[:8] + struct.pack("<I", 2) + PACKED[12:]))
    assert error.value.status is Status.WRONG_VERSION


BAD_NAMES = {
    "an absolute companion": Asset("a", "/etc/passwd", Blob(b"")),
    "a companion outside": Asset("a", "../b", Blob(b"")),
    "no name": Asset("", "", Blob(b"")),
    "a zero byte": Asset("a\0b", "", Blob(b"")),
}


@pytest.mark.parametrize("asset", BAD_NAMES.values(), ids=BAD_NAMES)
def test_names_that_no_asset_may_have_are_refused(asset: Asset) -> None:
    with pytest.raises(LiteRtError) as error:
        unpack(Blob(pack(Blob(b"x"), [asset])))
    assert error.value.status is Status.INVALID_FLATBUFFER


def test_two_assets_of_one_name_are_refused() -> None:
    twice = [Asset("a", "b", Blob(b"1")), Asset("a/b", "", Blob(b"2"))]
    with pytest.raises(LiteRtError, match="asset 'a/b' occurs twice"):
        unpack(Blob(pack(Blob(b"x"), twice)))


@given(st.integers(8, 150), st.integers(0, 255))
def test_a_flipped_byte_ends_in_parts_or_in_a_refusal(place: int, value: int) -> None:
    data = bytearray(PACKED)
    data[place] = value
    try:
        byte_code, assets = unpack(Blob(bytes(data)))
    except LiteRtError:
        return
    assert byte_code.size <= len(data) and all(a.blob.size <= len(data) for a in assets)


def test_the_assets_of_a_model_are_those_of_its_byte_code_each_once() -> None:
    other = pack(Blob(b"y"), [Asset("a", "", Blob(b"1")), Asset("b", "", Blob(b"2"))])
    first = pack(Blob(b"x"), [Asset("a", "", Blob(b"0"))])
    parts = [Appended(Blob(data), []) for data in (b"no container", first, other)]
    found = carried_assets(Model(byte_code=parts))
    assert [(asset.name, bytes(asset.blob)) for asset in found] == [("a", b"0"), ("b", b"2")]
