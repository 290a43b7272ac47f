"""Tests files in memory: ranges of a file, and errors when memory runs out."""

from __future__ import annotations

from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model import blob
from litert.model.blob import MappedFile


def test_a_range_lies_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    with MappedFile(tmp_path / "a") as file:
        assert (bytes(file.blob(3)), bytes(file.blob(3, 2))) == (b"3456789", b"34")
        for offset, size in ((11, None), (9, 2), (-1, 1), (3, -1)):
            with pytest.raises(LiteRtError, match="exceeds the file, which has 10 bytes") as error:
                file.blob(offset, size)
            assert error.value.status is Status.INDEX_OOB


def test_a_large_file_can_be_read_again_when_its_pages_were_released(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as out:
        out.truncate((16 << 20) + 1)
        out.seek(5)
        out.write(b"text")
    with MappedFile(tmp_path / "a") as file:
        assert bytes(file.view[5:9]) == b"text"
        file.release_pages()
        assert bytes(file.view[5:9]) == b"text"


def test_a_small_file_has_no_pages_to_release(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    with MappedFile(tmp_path / "a") as file:
        file.release_pages()
        assert bytes(file.view) == b"text"


def test_a_file_without_memory_for_it_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bytes:
        raise MemoryError

    (tmp_path / "a").write_bytes(b"123")
    monkeypatch.setattr(blob, "read_all", fails)
    with pytest.raises(LiteRtError, match="not enough memory for the 3 bytes") as error:
        MappedFile(tmp_path / "a")
    assert error.value.status is Status.MEMORY_ALLOCATION_FAILURE
