"""Tests that a cache entry is accepted only under its own name, and only if no other user can have written it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.cache_entry import read_entry, write_entry

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data" / "litert-npu"


@pytest.fixture(params=[0o700, 0o755, 0o770, 0o777], ids=lambda mode: f"in {mode:o}")
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    made.chmod(request.param)
    return made


def refused(path: Path, purpose: str = "a test") -> None:
    with pytest.raises((OSError, LiteRtError)):
        read_entry(str(path), purpose)


def test_an_entry_is_read_as_it_was_written(folder: Path) -> None:
    for data in (b"", b"x", b"data" * 10000):
        write_entry(str(folder / "name"), "a test", data[:2], data[2:])
        assert read_entry(str(folder / "name"), "a test") == data
    assert stat.S_IMODE((folder / "name").stat().st_mode) == 0o600
    refused(folder / "none")


def test_a_key_is_needed_in_a_shared_folder_alone(folder: Path, data: Path) -> None:
    write_entry(str(folder / "name"), "a test", b"data")
    is_shared = bool(folder.stat().st_mode & 0o022)
    assert data.exists() == is_shared
    if is_shared:
        (data / "key").unlink()  # another user would have another key
        refused(folder / "name")


def test_a_shared_folder_is_not_used_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "file").touch()
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "file"))
    with pytest.raises(OSError):
        write_entry(str(tmp_path / "name"), "a test", b"data")
    assert os.listdir(tmp_path) == ["file"]


def test_an_entry_that_was_planted_in_a_shared_folder_is_refused(tmp_path: Path) -> None:
    """Knowing how entries in a private folder are sealed is not enough: a shared folder needs the user's key."""
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir(mode=0o700)
    shared.mkdir()
    shared.chmod(0o777)
    write_entry(str(own / "name"), "a test", b"hostile")
    (own / "name").rename(shared / "name")
    refused(shared / "name")


def test_an_entry_is_bound_to_its_name_and_purpose(folder: Path) -> None:
    write_entry(str(folder / "name"), "a test", b"data")
    refused(folder / "name", "another")
    os.link(folder / "name", folder / "other")
    refused(folder / "other")
    (folder / "link").symlink_to("name")
    refused(folder / "link")


@pytest.mark.parametrize("bit", [stat.S_IWGRP, stat.S_IWOTH])
def test_an_entry_that_others_can_write_to_is_refused(folder: Path, bit: int) -> None:
    write_entry(str(folder / "name"), "a test", b"data")
    (folder / "name").chmod(0o600 | bit)
    with pytest.raises(PermissionError):
        read_entry(str(folder / "name"), "a test")


def test_an_entry_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_entry(str(folder / "name"), "a test", b"data")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    refused(folder / "name")


def test_each_byte_counts(folder: Path) -> None:
    path = folder / "name"
    write_entry(str(path), "a test", b"data")
    whole = path.read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for damaged in (*changed, whole[:-1], whole + b"\0", b""):
        path.write_bytes(damaged)
        with pytest.raises(LiteRtError) as error:
            read_entry(str(path), "a test")
        assert error.value.status is Status.SERIALIZATION


def test_a_pipe_is_no_entry(folder: Path) -> None:
    os.mkfifo(folder / "name", 0o600)
    refused(folder / "name")
