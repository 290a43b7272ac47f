"""Tests that scratch folders are removed with their process, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vendor_reference.device import scratch_folder

MAKE = """
import os, sys, time
from vendor_reference.device.scratch_folder import make_scratch_folder
folder = make_scratch_folder()
open(folder + "/file", "w").close()
print(folder, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path))
    return tmp_path / "litert-npu-cache" / "scratch"


def start(script: str = MAKE) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def grow_old(path: Path) -> None:
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))


def test_it_is_gone_when_its_process_ends(folder: Path) -> None:
    process, made = start()
    assert made.parent == folder and made.exists()
    process.communicate("\n")
    assert not made.exists()


def test_what_a_killed_process_leaves_is_swept_by_the_next(folder: Path) -> None:
    process, made = start()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert made.exists()
    grow_old(made)
    start()[0].communicate("\n")
    assert not made.exists()


def test_that_of_a_living_process_is_left_alone(folder: Path) -> None:
    process, made = start()
    grow_old(made)
    start()[0].communicate("\n")
    assert (made / "file").exists()
    process.communicate("\n")


def test_a_forked_child_leaves_its_parents_alone(folder: Path) -> None:
    fork = "if os.fork() == 0: sys.exit()\nos.wait()\n"
    process, made = start(MAKE.replace("print(", fork + "print("))
    assert (made / "file").exists()
    process.communicate("\n")
    assert not made.exists()


def test_there_is_one_where_the_cache_folder_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "file"))
    made = Path(scratch_folder.make_scratch_folder())
    assert made.is_dir() and tmp_path not in made.parents


def test_it_is_elsewhere_where_the_cache_folder_is_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 4096})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    made = Path(scratch_folder.make_scratch_folder())
    assert made.is_dir() and folder not in made.parents
