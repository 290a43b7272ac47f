from __future__ import annotations

import io
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.model.assembler import Assembler
from litert.model.blob import Blob
from litert.model.graph import Buffer, Model, Subgraph, Tensor
from litert.model.reader import read_model
from litert.model.writer import to_bytes

FILES = {"labels.txt": b"cat\ndog\n", "more/é.bin": bytes(5000)}


def make_model(data: bytes | None) -> Model:
    model = Model(buffers=[Buffer(), Buffer(None if data is None else Blob(data))])
    tensor = Tensor("w", ElementType.UINT8, (len(data or b""),), model.buffers[1])
    model.subgraphs = [Subgraph("main", [tensor], [], [tensor])]
    return model


def with_archive(data: bytes) -> bytes:
    """Appends files as TFLite metadata does: offsets count from the start of the file."""
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        archive.comment = b"associated files"
    return file.getvalue()


def files_in(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def first_offset(data: bytes) -> int:
    """Returns the offset of the first file in the archive's directory, from the start of the model."""
    directory = data.index(b"PK\1\2")
    return int.from_bytes(data[directory + 42 : directory + 46], "little")


@pytest.mark.parametrize("data", [None, b"", b"123", bytes(100)], ids=["none", "0", "3", "100"])
def test_a_model_alone_has_no_trailing_bytes(data: bytes | None) -> None:
    assert read_model(to_bytes(make_model(data))).trailing is None


@pytest.mark.parametrize("size", [0, 10, 50_000])
def test_associated_files_stay_readable_when_the_model_grows(size: int) -> None:
    before = with_archive(to_bytes(make_model(b"123")))
    model = read_model(before)
    model.buffers[1].blob = Blob(bytes(size))
    after = to_bytes(model)
    assert files_in(after) == FILES
    assert first_offset(after) == after.index(b"PK\3\4")  # required by readers other than Python's
    assert to_bytes(read_model(after)) == after


def test_an_archive_that_counts_from_its_own_start_is_left_as_it_is() -> None:
    archive = with_archive(b"")
    model = read_model(to_bytes(make_model(b"123")) + archive)
    model.set_metadata("more", Blob(bytes(1000)))
    after = to_bytes(model)
    assert after.endswith(archive) and files_in(after) == FILES


def test_an_archive_is_found_behind_byte_code_and_external_data() -> None:
    model = make_model(b"123")
    model.buffers[1].is_external = True
    after = to_bytes(read_model(with_archive(to_bytes(model))))
    assert files_in(after) == FILES
    assert bytes(read_model(after).subgraphs[0].tensors[0].data) == b"123"


def test_any_other_bytes_at_the_end_are_kept() -> None:
    @settings(max_examples=60)
    @given(st.binary(min_size=1, max_size=100), st.binary(max_size=40))
    def check(trailing: bytes, data: bytes) -> None:
        trailing = b"T" + trailing + b"!"
        model = read_model(to_bytes(make_model(data)) + trailing)
        assert model.trailing is not None and bytes(model.trailing) == trailing
        after = to_bytes(model)
        assert after.endswith(trailing)
        assert to_bytes(read_model(after)) == after

    check()


def test_bytes_in_front_of_an_archive_are_kept_too() -> None:
    model = read_model(with_archive(to_bytes(make_model(b"123")) + b"some text"))
    assert model.trailing is not None and bytes(model.trailing).startswith(b"some text")
    model.set_metadata("more", Blob(bytes(1000)))
    after = to_bytes(model)
    assert b"some text" in after and files_in(after) == FILES
    assert first_offset(after) == after.index(b"PK\3\4")


def test_tables_that_share_a_vector_are_looked_at_once() -> None:
    out = Assembler()
    metadata = out.offset_vector([out.table([])] * 50_000)
    tensors = [out.table([(6, out.table([(2, metadata)]))]) for _ in range(5_000)]
    subgraph = out.table([(0, out.offset_vector(tensors))])
    root = out.table([(2, out.offset_vector([subgraph]))], [(0, "I", 3)])
    model = read_model(bytes(out.finish(root, b"TFL3")) + b"trailing bytes")
    assert model.trailing is not None and bytes(model.trailing) == b"trailing bytes"


def test_zeros_that_align_the_end_are_not_kept() -> None:
    data = to_bytes(make_model(b"123"))
    assert to_bytes(read_model(data + bytes(40))) == data


def test_a_damaged_archive_is_kept_as_bytes() -> None:
    @settings(max_examples=100)
    @given(st.integers(0, 10_000), st.integers(0, 255))
    def check(place: int, value: int) -> None:
        data = bytearray(with_archive(to_bytes(make_model(b"123"))))
        start = data.index(b"PK\3\4")
        data[start + place % (len(data) - start)] = value
        model = read_model(bytes(data))
        model.set_metadata("more", Blob(bytes(100)))
        assert len(to_bytes(model)) >= len(data) + 100

    check()


def test_what_lies_behind_the_last_table_of_a_vector_is_the_models_too() -> None:
    out = Assembler()
    name = out.text("n" * 200)
    tables = [out.table([]), out.table([(3, name)])]
    subgraph = out.table([(0, out.offset_vector(tables))])
    data = bytes(out.finish(out.table([(2, out.offset_vector([subgraph]))]), b"TFL3"))
    assert read_model(data).trailing is None
    archive, end = with_archive(data), data.rindex(b"n\0") + 2
    for whole, trailing in (
        (data + b"text", b"text"),
        (data[:end] + b"text", b"text"),
        (archive, archive[len(data) :]),
    ):
        model = read_model(whole)
        assert model.trailing is not None and bytes(model.trailing) == trailing


END = struct.Struct("<4s6xHIIH")


@pytest.mark.parametrize(
    "tail",
    [
        b"text" * 9 + END.pack(b"PK\5\6", 1, 4, 0, 0),
        b"text" * 9 + END.pack(b"PK\5\6", 1, 1 << 20, 0, 0),
        b"text" * 9 + END.pack(b"PK\5\6", 1, 0, 0xFFFFFFFF, 0),
        bytes(46) + END.pack(b"PK\5\6", 1, 46, 0, 0),
        b"PK\1\2" + bytes(46) + END.pack(b"PK\5\6", 1, 50, 0, 0),
        b"text PK\5\6 text",
    ],
    ids=["short directory", "outside", "ZIP64", "no entry", "bytes behind entries", "cut"],
)
def test_what_only_looks_like_an_archive_is_kept_as_bytes(tail: bytes) -> None:
    data = to_bytes(make_model(b"123"))
    model = read_model(data + b"x" + tail)
    assert model.trailing is not None and bytes(model.trailing) == b"x" + tail
    model.set_metadata("more", Blob(bytes(100)))
    assert to_bytes(model).endswith(b"x" + tail)
