"""Tests a cache folder that others use too: their files stay, and another user's programs never run."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vendor_reference import cache
from vendor_reference.compiler import built_kernels
from vendor_reference.compiler.built_kernels import remember_built
from vendor_reference.device.scratch_folder import make_scratch_folder
from vendor_reference.drivers import proof
from vendor_reference.drivers.driver import driver_of_library
from vendor_reference.drivers.installation import Installation
from vendor_reference.programs.program_cache import CompiledProgram, ProgramCache
from vendor_reference.programs.program_text import ProgramText

TEXT, BUILT = ProgramText("k.cl", "text", ""), CompiledProgram({}, b"machine code")
LONG_AGO = time.time() - 7 * 24 * 3600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path))
    return tmp_path


def put_strangers_files(folder: Path) -> dict[Path, bytes]:
    """Writes old files and folders with names like ours to every folder from which something is removed."""
    files = {}
    for parent in (folder, folder / "litert-npu-cache"):
        for part in ("scratch", "programs", "built", "drivers"):
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
    cache.make_cache_folder("programs")
    files = put_strangers_files(folder)
    make_scratch_folder()
    programs = ProgramCache(["device"], limit_bytes=1)
    for module in (built_kernels, proof):
        monkeypatch.setattr(module, "_LIMIT_BYTES", 1)
    nothing = Installation(driver_of_library(""), "", "")
    for number in range(3):
        programs.store(ProgramText("k.cl", str(number), ""), CompiledProgram({}, bytes(1000)))
        remember_built(str(number) * 64, built_kernels.BuiltProgram({}))
        proof._remember(str(number) * 64, proof.Proof(nothing, (), "no"))
    for path, data in files.items():
        assert path.read_bytes() == data
    for part, suffix, strangers in (
        ("programs", "clb", 1),
        ("built", "json", 1),
        ("drivers", "json", 1),
    ):
        kept = list((folder / "litert-npu-cache" / part).glob(f"*.{suffix}"))
        assert len(kept) == strangers + 1  # and our newest entry


@pytest.mark.parametrize("is_link", [False, True], ids=["a user's own", "a link"])
def test_a_folder_of_our_name_that_is_not_ours_is_left_alone(folder: Path, is_link: bool) -> None:
    theirs = folder / ("elsewhere" if is_link else "litert-npu-cache")
    theirs.mkdir(mode=0o755)
    (theirs / "thesis.txt").write_text("written in years")
    if is_link:
        (folder / "litert-npu-cache").symlink_to(theirs)
    programs = ProgramCache(["device"])
    programs.store(ProgramText("k.cl", "text", ""), CompiledProgram({}, b"machine code"))
    assert programs.find(ProgramText("k.cl", "text", "")) is None
    assert folder not in Path(make_scratch_folder()).parents
    assert [path.name for path in theirs.iterdir()] == ["thesis.txt"]
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755


def test_a_part_that_is_a_link_is_not_used(folder: Path) -> None:
    made = Path(cache.make_cache_folder("programs"))
    made.rmdir()
    (folder / "elsewhere").mkdir()
    made.symlink_to(folder / "elsewhere")
    programs = ProgramCache(["device"])
    programs.store(ProgramText("k.cl", "text", ""), CompiledProgram({}, b"machine code"))
    assert not list((folder / "elsewhere").iterdir())


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> str:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LITERT_NPU_CACHE_DIR", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", no_home)
    programs = ProgramCache(["device"])
    programs.store(ProgramText("k.cl", "text", ""), CompiledProgram({}, b"machine code"))
    assert programs.find(ProgramText("k.cl", "text", "")) is None
    assert Path(make_scratch_folder()).is_dir()


WITHOUT_HOME = """
import logging, os, platformdirs, pwd, traceback
import litert.model.output
from vendor_reference.device.scratch_folder import make_scratch_folder
from vendor_reference.programs.program_cache import CompiledProgram, ProgramCache
from vendor_reference.programs.program_text import ProgramText
try:
    os.setuid(54321)  # after the imports: another user need not be able to read this Python
    pwd.getpwuid(os.getuid())
except PermissionError:  # this user has a name, which nobody tells
    def getpwuid(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")
    pwd.getpwuid = getpwuid
except KeyError:
    pass
text = ProgramText("k.cl", "text", "")
for _ in range(3):
    programs = ProgramCache(["device"])
    programs.store(text, CompiledProgram({}, b"machine code"))
    assert programs.find(text) is None
print(make_scratch_folder())
"""


def test_a_user_whom_the_system_does_not_know_is_told_once_that_nothing_is_kept() -> None:
    variables = ("HOME", "LITERT_NPU_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {k: v for k, v in os.environ.items() if k not in variables}
    command = [sys.executable, "-c", WITHOUT_HOME]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("Kernels cannot be cached: ") == 1
    assert ended.stderr.count(". Therefore, each process builds its kernels again. Set ") == 1
    assert len(ended.stderr.splitlines()) == 1 and "/.litert-npu." in ended.stdout


def test_what_is_made_is_for_this_user_alone(folder: Path) -> None:
    (folder / "litert-npu-cache").mkdir(mode=0o755)
    made = Path(cache.make_cache_folder("programs"))
    assert made == folder / "litert-npu-cache" / "programs"
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    ProgramCache(["device"]).store(TEXT, BUILT)
    (entry,) = made.iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


@pytest.mark.parametrize("bit", [stat.S_IWGRP, stat.S_IWOTH], ids=["group", "others"])
@pytest.mark.parametrize("what", ["the folder", "a part of it", "an entry"])
def test_what_others_can_write_to_is_not_used(folder: Path, what: str, bit: int) -> None:
    programs = ProgramCache(["device"])
    programs.store(TEXT, BUILT)
    (path,) = (folder / "litert-npu-cache" / "programs").iterdir()
    path = {"the folder": path.parents[1], "a part of it": path.parent, "an entry": path}[what]
    path.chmod(path.stat().st_mode | bit)
    assert programs.find(TEXT) is None
    path.chmod(path.stat().st_mode & ~bit)
    assert programs.find(TEXT) == BUILT


def test_an_entry_under_another_name_is_refused(folder: Path) -> None:
    """Checks that a program for another driver or with other flags is not taken for this one."""
    programs = ProgramCache(["device"])
    programs.store(TEXT, BUILT)
    (path,) = (folder / "litert-npu-cache" / "programs").iterdir()
    other = ProgramText("k.cl", "text", "-DX")
    path.rename(path.parent / programs._name(other))
    assert programs.find(other) is None

    remember_built("0" * 64, built_kernels.BuiltProgram({}))
    assert built_kernels.find_built("0" * 64) is not None
    built = folder / "litert-npu-cache" / "built"
    (built / f"{'0' * 64}.json").rename(built / f"{'1' * 64}.json")
    assert built_kernels.find_built("1" * 64) is None


def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, built = ProgramText("k.cl", "text", ""), CompiledProgram({}, b"machine code")
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
