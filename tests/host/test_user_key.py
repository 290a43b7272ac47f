"""Tests that the user's key stays the same, is private to the user, and that nothing else is accepted as a key."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from litert.host.user_key import seal, user_key


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path))
    return tmp_path


def test_a_key_is_made_once_and_for_its_user_alone(data: Path) -> None:
    old = os.umask(0)
    try:
        key = user_key()
    finally:
        os.umask(old)
    assert len(key) == 32 and user_key() == key
    (file,) = (data / "litert-npu").iterdir()
    assert file.read_bytes() == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_processes_that_come_at_once_have_one_key(data: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: user_key(), range(64)))) == 1
    assert len(list((data / "litert-npu").iterdir())) == 1


def test_a_seal_is_bound_to_key_purpose_and_bytes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = seal("a file", b"ab", b"c")
    assert seal("a file", b"ab", b"c") == sealed
    others = {seal("a file", b"a", b"bc"), seal("an entry", b"ab", b"c"), seal("a file", b"abc")}
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "another"))
    others.add(seal("a file", b"ab", b"c"))
    assert len(others | {sealed}) == 5


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("problem", ["a link", "readable by others", "another user's", "a pipe"])
def test_what_is_not_this_users_alone_is_no_key(
    data: Path, what: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_key()
    path = data / "litert-npu"
    path = path / "key" if what == "file" else path
    if problem == "a link":
        path.rename(data / "elsewhere")
        path.symlink_to(data / "elsewhere")
    elif problem == "readable by others":
        path.chmod(path.stat().st_mode | 0o040)
    elif problem == "a pipe":
        path.rename(data / "elsewhere")
        os.mkfifo(path, 0o600)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError):
        user_key()


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_size_is_refused(data: Path, size: int) -> None:
    user_key()
    (data / "litert-npu" / "key").write_bytes(bytes(size))
    with pytest.raises(OSError, match="the key must have 32 bytes"):
        user_key()


@pytest.mark.parametrize("place", ["LITERT_NPU_DATA_DIR", "HOME", "an old platformdirs"])
def test_a_home_is_never_a_folder_that_is_called_like_its_sign(
    data: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Without expansion, `~` would be a folder in the current directory."""
    monkeypatch.chdir(data)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", "~/data" if place == "LITERT_NPU_DATA_DIR" else "")
    if (
        place == "an old platformdirs"
    ):  # HOME is not set, and the user is not in the password database
        monkeypatch.setattr("platformdirs.user_data_dir", lambda: "~/.local/share")
        with pytest.raises(OSError, match="no data directory"):
            user_key()
    else:
        monkeypatch.setenv("HOME", str(data / "home"))
        user_key()
        assert (data / "home").is_dir()
    assert not (data / "~").exists()
