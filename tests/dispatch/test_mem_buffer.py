"""Tests that assets and byte code are passed in place: mapped, not read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from litert.core.environment_options import EnvironmentOptions
from litert.model.blob import Blob, MappedFile
from tests.dispatch.strict_vendor import StrictDispatch, open_session

GIB = 1 << 30


def read_address(buffer: MemBuffer) -> bytes:
    """Returns the bytes that a C driver would find at base address and offset."""
    import ctypes

    return ctypes.string_at(buffer.base_address + buffer.offset, buffer.size)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_range_of_a_file_is_where_it_says(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"0123456789")
    with MappedFile(path) as file:
        buffer = MemBuffer.from_blob(file.blob(3, 4))
        assert (buffer.offset, buffer.size) == (3, 4)
        assert bytes(buffer.view) == b"3456" == read_address(buffer)
        assert os.pread(buffer.fd, buffer.size, buffer.offset) == b"3456"


@pytest.mark.parametrize(
    "memory", [b"0123456789", bytearray(b"0123456789"), memoryview(b"0123456789")]
)
def test_memory_is_where_it_says(memory: bytes | bytearray | memoryview) -> None:
    buffer = MemBuffer.from_memory(memory, 3, 4)
    assert buffer.fd == -1
    assert bytes(buffer.view) == b"3456" == read_address(buffer)
    assert bytes(MemBuffer.from_blob(Blob(bytes(memory))).view) == bytes(memory)


def test_memory_is_not_copied() -> None:
    array = np.arange(8, dtype=np.float32)
    buffer = MemBuffer.from_memory(array.data)
    assert (buffer.base_address, buffer.size) == (array.ctypes.data, 32)


def test_nothing_is_a_buffer_too(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with MappedFile(tmp_path / "empty") as file:
        assert MemBuffer.from_blob(file.blob()).size == 0
    assert MemBuffer.from_memory(b"").size == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_an_asset_of_a_gigabyte_is_registered_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    with path.open("wb") as file:
        file.truncate(GIB)
    with MappedFile(path) as mapped:
        open_session(StrictDispatch(), ["Op"]).close()  # loads everything that is loaded only once
        before = resident_bytes()
        buffer = MemBuffer.from_blob(mapped.blob(4096))
        with Session(
            StrictDispatch(),
            environment_options=EnvironmentOptions(),
            options={},
            assets=[("Op", buffer)],
        ):
            pass
        assert buffer.size == GIB - 4096
        assert resident_bytes() - before < 16 << 20
