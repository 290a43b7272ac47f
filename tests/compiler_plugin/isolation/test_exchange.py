"""Tests `Exchange`, which sends bytes to another process: files by path, memory copied once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler_plugin.isolation.exchange import Exchange
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob, MappedFile

Ends = tuple[Exchange, Exchange]


@pytest.fixture
def fd() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


@pytest.fixture
def ends(fd: int) -> Ends:
    return Exchange(fd), Exchange(fd)


def send(blob: Blob, ends: Ends) -> Blob:
    here, there = ends
    reference = here.refer(blob)
    there.learn(here.announce())
    return there.take(reference)


def test_bytes_of_a_file_are_not_copied(tmp_path: Path, fd: int, ends: Ends) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"0123456789" * 1000)
    with MappedFile(path) as file:
        found = send(file.blob(5, 100), ends)
        again = send(file.blob(200, 3), ends)
        assert found.view == file.view[5:105] and bytes(again) == b"012"
    assert found.file and found.file.path == str(path) and found.file is again.file
    assert os.fstat(fd).st_size == 0


@pytest.mark.parametrize("size", [0, 1, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 7])
def test_bytes_in_memory_arrive_once(fd: int, ends: Ends, size: int) -> None:
    blob = Blob(os.urandom(size))
    found = send(blob, ends)
    assert found.view == blob.view
    written = os.fstat(fd).st_size
    assert send(blob, ends) is found and os.fstat(fd).st_size == written


def test_a_large_model_in_memory_is_copied_once_and_whole(fd: int, ends: Ends) -> None:
    base = memoryview(os.urandom(1 << 20))
    blobs = [Blob.within(base, place, 1000) for place in range(0, 100_000, 500)]
    assert all(send(blob, ends).view == blob.view for blob in blobs)
    assert os.fstat(fd).st_size == 1 << 20


def test_of_a_small_model_in_memory_only_what_is_needed_is_copied(fd: int, ends: Ends) -> None:
    base = memoryview(bytes(10_000))
    assert send(Blob.within(base, 10, 20), ends).view == bytes(20)
    assert os.fstat(fd).st_size == 20


@pytest.mark.parametrize("of", ["file", "memory", "block"])
def test_what_comes_back_lies_where_it_lay(tmp_path: Path, ends: Ends, of: str) -> None:
    here, there = ends
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(1 << 20))
    with MappedFile(path) as file:
        blob = {
            "file": file.blob(10, 20),
            "memory": Blob(b"some bytes"),
            "block": Blob.within(memoryview(bytes(1 << 20)), 10, 20),
        }[of]
        reference = there.refer(send(blob, ends))
        assert there.announce() == []
        back = here.take(reference)
        assert (back.base, back.offset, back.size) == (blob.base, blob.offset, blob.size)


def test_the_other_end_sends_bytes_and_files_of_its_own(tmp_path: Path, ends: Ends) -> None:
    here, there = ends
    path = tmp_path / "made"
    path.write_bytes(b"made there")
    assert bytes(send(Blob(b"mine"), ends)) == b"mine"
    with MappedFile(path) as file:
        assert bytes(send(file.blob(5), (there, here))) == b"there"
    assert bytes(send(Blob(b"theirs"), (there, here))) == b"theirs"


@pytest.mark.parametrize("what", ["closed", "removed", "replaced"])
def test_a_file_that_its_path_does_not_lead_to_is_copied(
    tmp_path: Path, ends: Ends, what: str
) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"0123456789")
    file = MappedFile(path)
    blob = file.blob(2, 5)
    if what == "closed":
        file.close()
    else:
        path.unlink()
    if what == "replaced":
        path.write_bytes(b"XXXXXXXXXX")
    assert bytes(send(blob, ends)) == b"23456"
    file.close()


def test_a_file_that_was_replaced_meanwhile_is_refused(tmp_path: Path, ends: Ends) -> None:
    here, there = ends
    path = tmp_path / "weights"
    path.write_bytes(b"0123456789")
    with MappedFile(path) as file:
        here.refer(file.blob(2, 5))
        other = tmp_path / "other"
        other.write_bytes(b"X")
        os.replace(other, path)
        with pytest.raises(LiteRtError, match="another file replaced this file during") as error:
            there.learn(here.announce())
    assert error.value.status is Status.FILE_IO
