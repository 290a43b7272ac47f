"""A cache folder that others use too: nothing of theirs is removed, and nothing of another user's is run."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from vendor_reference import cache
from vendor_reference.compiler import built_kernels
from vendor_reference.compiler.built_kernels import remember_built
from vendor_reference.device.program_cache import BuiltProgram, ProgramCache
from vendor_reference.device.program_text import ProgramText
from vendor_reference.device.scratch_folder import make_scratch_folder

LONG_AGO = time.time() - 7 * 24 * 3600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path))
    return tmp_path


def put_strangers_files(folder: Path) -> dict[Path, bytes]:
    """Old files and folders with names like ours, everywhere that something is removed."""
    files = {}
    for parent in (folder, folder / "litert-npu"):
        for part in ("scratch", "programs", "built"):
            for name in ("file", f"{'0' * 64}.txt", f"{'0' * 63}.clb", f"x{'0' * 64}.json"):
                files[parent / part / name] = b"a user's" * 100
            for name in ("thesis", "1234-backup", "1234-a"):
                files[parent / part / name / "chapter.txt"] = b"written in years"
            files[parent / part / "locked" / ".litert-npu-lock"] = b"not a folder of ours"
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (LONG_AGO, LONG_AGO))
        os.utime(path.parent, (LONG_AGO, LONG_AGO))
    return files


def test_files_of_others_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = put_strangers_files(folder)
    make_scratch_folder()
    programs = ProgramCache(["device"], limit_bytes=1)
    monkeypatch.setattr(built_kernels, "_LIMIT_BYTES", 1)
    for number in range(3):
        programs.store(ProgramText("k.cl", str(number), ""), BuiltProgram({}, bytes(1000)))
        remember_built(str(number) * 64, built_kernels.BuiltProgram({}))
    for path, data in files.items():
        assert path.read_bytes() == data
    kept = list((folder / "litert-npu" / "programs").glob("*.clb"))
    assert len(kept) == 2  # the stranger's, and our newest


def test_what_is_made_is_for_this_user_alone(folder: Path) -> None:
    (folder / "litert-npu").mkdir(mode=0o777)
    made = Path(cache.make_cache_folder("programs"))
    assert made == folder / "litert-npu" / "programs"
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700


def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, built = ProgramText("k.cl", "text", ""), BuiltProgram({}, b"machine code")
    programs = ProgramCache(["device"])
    programs.store(text, built)
    remember_built("0" * 64, built_kernels.BuiltProgram({}))
    assert programs.find(text) == built
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert programs.find(text) is None
    assert built_kernels.find_built("0" * 64) is None
    programs.store(text, built)
    programs.remove(text)
    made = Path(make_scratch_folder())
    assert folder not in made.parents
    monkeypatch.undo()
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(folder))
    assert programs.find(text) == built
