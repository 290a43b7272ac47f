"""Tests that input files must be regular files, so that reading a file cannot block or last forever."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.input_file import check_input, open_input, read_input
from litert.core.status import Status
from litert.model.blob import MappedFile

OPEN = [open_input, check_input, read_input, MappedFile]


@pytest.mark.parametrize("reads", OPEN)
@pytest.mark.parametrize("kind", ["zero", "full", "pipe", "folder", "socket", "link to a pipe"])
def test_what_is_no_regular_file_is_refused(
    tmp_path: Path, kind: str, reads: Callable[[str], object]
) -> None:
    path = tmp_path / "input"
    if kind in ("zero", "full"):
        path = Path("/dev", kind)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    with pytest.raises(LiteRtError) as error:
        reads(str(path))
    assert error.value.status is Status.INVALID_ARGUMENT
    assert error.value.where == str(path)
    assert "not a" in error.value.what


@pytest.mark.parametrize("reads", OPEN)
def test_a_name_that_no_file_has_is_refused(tmp_path: Path, reads: Callable[[str], object]) -> None:
    for name, status in (("none", Status.NOT_FOUND), ("a\0b", Status.INVALID_ARGUMENT)):
        with pytest.raises(LiteRtError) as error:
            reads(str(tmp_path / name))
        assert error.value.status is status


@pytest.mark.parametrize("reads", [read_input, MappedFile])
@pytest.mark.parametrize("function", ["stat", "fstat", "pread"])
def test_a_file_that_cannot_be_read_is_an_error_in_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    reads: Callable[[str], object],
) -> None:
    (tmp_path / "a").write_bytes(b"1")

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, function, fails)
    with pytest.raises(LiteRtError) as error:
        reads(str(tmp_path / "a"))
    monkeypatch.undo()
    assert error.value.status is Status.FILE_IO and "output error" in error.value.what.lower()


def test_a_small_file_stays_as_it_was_read(tmp_path: Path) -> None:
    """Checks that a small file is not mapped: reading pages of a truncated mapped file would end the process."""
    path = tmp_path / "a"
    path.write_bytes(b"model" * 10000)
    with MappedFile(path) as file:
        os.truncate(path, 0)
        assert bytes(file.view) == b"model" * 10000


def test_a_file_that_becomes_shorter_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"model" * 10000)
    real = os.pread

    def pread(fd: int, size: int, offset: int) -> bytes:
        os.truncate(path, 100)
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(LiteRtError, match="FILE_IO: the file became shorter"):
        MappedFile(path)


def test_only_as_much_is_read_as_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_input(tmp_path / "a") == b"12345"
    assert read_input(tmp_path / "a", 3) == b"123"
