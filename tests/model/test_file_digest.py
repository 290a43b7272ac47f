"""Tests the digest of a whole compiled file: it covers every bit, including the digest's own place."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob, MappedFile
from litert.model.builder import ModelBuilder
from litert.model.file_digest import FileDigest, check_digest, find_digest
from litert.model.graph import Model
from litert.model.manifest import Manifest, read_manifest, set_manifest
from litert.model.reader import read_model
from litert.model.writer import to_bytes, write_model

PIECE = 4 << 20


def model(size: int = 0) -> Model:
    """Returns a model with a manifest, as if compiled, and with `size` bytes of metadata."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    made = builder.build()
    made.set_metadata("weights", Blob(bytes(range(256)) * (size // 256)))
    set_manifest(made, Manifest("Test", "T1", has_digest=True))
    return made


def seal(root: bytes) -> bytes:
    return hashlib.sha256(b"secret" + root).digest()


def expected(data: bytes) -> bytes:
    """Computes digest and seal as the format's documentation defines them."""
    whole = data[:16] + bytes(64) + data[80:]
    pieces = [whole[start : start + PIECE] for start in range(0, len(whole), PIECE)]
    root = hashlib.sha256(b"".join(hashlib.sha256(piece).digest() for piece in pieces)).digest()
    sealed = data[48:80] if any(data[48:80]) else bytes(32)
    assert sealed in (bytes(32), seal(root))
    return hashlib.sha256(root + sealed).digest() + sealed


@pytest.mark.parametrize("size", [0, PIECE - 4096, PIECE, 3 * PIECE], ids=str)
def test_the_digest_is_that_of_the_description(tmp_path: Path, size: int) -> None:
    path = tmp_path / "model.tflite"
    for sealing in (None, seal):
        write_model(model(size), path, seal=sealing)
        data = path.read_bytes()
        assert data[8:16] == b"LiteNPU\1"
        assert data[16:80] == expected(data)
        with MappedFile(path) as file:
            assert check_digest(file, None, "") == check_digest(memoryview(data), None, "") != b""
    write_model(model(size), path)
    assert path.read_bytes() == to_bytes(model(size))


def test_each_bit_of_a_file_counts() -> None:
    data = to_bytes(model())
    unnoticed = []
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        try:
            check_digest(memoryview(flipped), None, "")
            with read_model(bytes(flipped)) as damaged:
                read_manifest(damaged)
            unnoticed.append(place)
        except LiteRtError as error:
            assert error.status is Status.INVALID_FLATBUFFER, error
    assert unnoticed == []


@pytest.mark.parametrize("change", [b"", b"\0"], ids=["shorter", "longer"])
def test_the_end_of_a_file_counts(change: bytes) -> None:
    data = to_bytes(model())
    data = data + change if change else data[:-1]
    with pytest.raises(
        LiteRtError, match="the file has changed since it was compiled: its digest does not match"
    ):
        check_digest(memoryview(data), None, "")


def test_a_large_file_has_a_digest_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert.model.writer.ALWAYS_LIMIT", PIECE)
    path = tmp_path / "model.tflite"
    write_model(model(PIECE), path, seal=seal)
    data = memoryview(path.read_bytes())
    found = find_digest(data)
    assert found and not found.is_taken and not found.is_sealed
    assert check_digest(data, None, "") == b""
    assert data == to_bytes(model(PIECE))
    write_model(model(PIECE), path, seal=seal, digest_weights=True)
    data = memoryview(path.read_bytes())
    found = find_digest(data)
    assert found and found.is_taken and found.is_sealed
    assert check_digest(data, None, "")


def test_a_large_file_is_compared_on_request() -> None:
    data = bytearray(to_bytes(model(PIECE)))
    data[-1] ^= 1
    assert check_digest(memoryview(data), PIECE, "") == b""
    with pytest.raises(LiteRtError, match="its digest does not match"):
        check_digest(memoryview(data), None, "")


def test_a_model_that_is_not_compiled_has_no_digest() -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    data = to_bytes(builder.build())
    assert find_digest(memoryview(data)) is None
    assert check_digest(memoryview(data), None, "") == b""
    for end in range(100):
        assert find_digest(memoryview(data[:end])) is None


@pytest.mark.parametrize("says_so", [True, False])
def test_a_digest_and_the_manifest_that_says_so_come_together(says_so: bool) -> None:
    made = model()
    set_manifest(made, Manifest("Test", "T1", has_digest=says_so))
    made.has_digest = not says_so
    with read_model(to_bytes(made)) as read, pytest.raises(LiteRtError) as error:
        read_manifest(read, "file")
    assert error.value.status is Status.INVALID_FLATBUFFER and error.value.where == "file"


def test_a_model_that_is_written_again_has_a_new_digest_and_no_seal(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    write_model(model(), path, seal=seal)
    with read_model(path) as read:
        read.description = "another"
        again = to_bytes(read)
    found = find_digest(memoryview(again))
    assert found and found.is_taken and not found.is_sealed
    assert check_digest(memoryview(again), None, "")


def test_a_file_that_was_cut_after_it_was_opened_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    write_model(model(3 * PIECE), path)
    with MappedFile(path) as file:
        path.open("r+b").truncate(PIECE)
        with pytest.raises(LiteRtError, match="its digest does not match"):
            check_digest(file, None, str(path))


def test_pieces_are_read_once_each() -> None:
    reads: list[tuple[int, int]] = []
    data = bytes(2 * PIECE + 5)

    def read(start: int, count: int) -> bytes:
        reads.append((start, count))
        return data[start : start + count]

    FileDigest.of(read, len(data), None)
    assert sorted(reads) == [(0, PIECE), (PIECE, PIECE), (2 * PIECE, 5)]


def test_a_file_that_cannot_be_read_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, count: int, start: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    write_model(model(9 << 20), tmp_path / "a.tflite")  # large enough to be mapped
    with MappedFile(tmp_path / "a.tflite") as file:
        monkeypatch.setattr(os, "pread", fail)
        with pytest.raises(LiteRtError, match=r"input/output error \(.*a\.tflite\)") as error:
            check_digest(file, None, "a.tflite")
    assert error.value.status is Status.FILE_IO
