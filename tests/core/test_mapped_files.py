"""Tests that a mapped file that becomes shorter causes an error, and that other bus errors are unchanged."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

MAP = """
import faulthandler, os, signal
from litert.core.mapped_files import check_mapped_files, guard_mapped_files, map_file
{first}
with open("large", "w+b") as file:
    file.truncate(1 << 20)
    mapped = map_file(file.fileno(), os.path.abspath("large"))
{then}
"""
CUT = """
os.truncate("large", 100)
assert not any(mapped[:])
check_mapped_files()
"""
SENT = """
def a_kernel():
    os.kill(os.getpid(), signal.SIGBUS)
a_kernel()
"""
SHORTER = (
    "FILE_IO: the file became shorter while it was read ({path}). To replace a file that is in use, rename a "
    "new file over it; do not write into the old file."
)
GUARD, NAMES = "guard_mapped_files()", "faulthandler.enable()"


def ran(tmp_path: object, first: str, then: str) -> subprocess.CompletedProcess[str]:
    code = MAP.format(first=first, then=then)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=str(tmp_path), capture_output=True, text=True
    )


@pytest.mark.parametrize("first", [GUARD, f"{NAMES}; {GUARD}"], ids=["default", "faulthandler"])
def test_a_file_that_becomes_shorter_is_an_error(tmp_path: object, first: str) -> None:
    done = ran(tmp_path, first, CUT)
    assert SHORTER.format(path=f"{tmp_path}/large") in done.stderr
    assert done.returncode == 1


def test_a_file_that_is_whole_is_none(tmp_path: object) -> None:
    assert ran(tmp_path, GUARD, "assert not any(mapped[:]); check_mapped_files()").returncode == 0


def test_a_file_that_is_as_long_again_is_named_with_all_that_are_mapped(tmp_path: object) -> None:
    again = (
        'os.truncate("large", 0); mapped[5000]; os.truncate("large", 1 << 20); check_mapped_files()'
    )
    done = ran(tmp_path, GUARD, again)
    assert f"or its disk failed, while it was read ({tmp_path}/large)" in done.stderr


def test_a_smaller_file_in_its_place_is_no_error(tmp_path: object) -> None:
    renamed = 'open("other", "w").close(); os.replace("other", "large"); mapped[5000]'
    done = ran(
        tmp_path,
        GUARD,
        f"{renamed}; check_mapped_files()\n"
        "from litert.core.mapped_files import lost_bytes; assert lost_bytes() is None",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", [GUARD, f"{NAMES}; {GUARD}"], ids=["default", "faulthandler"])
def test_a_bus_error_of_another_kind_ends_the_process(tmp_path: object, first: str) -> None:
    done = ran(tmp_path, first, SENT)
    assert done.returncode == -signal.SIGBUS
    assert ("in a_kernel" in done.stderr) == (NAMES in first)


def test_a_program_that_is_not_ours_keeps_its_handler(tmp_path: object) -> None:
    assert ran(tmp_path, "", CUT).returncode == -signal.SIGBUS


def test_a_system_that_lets_no_new_code_run_stays_as_it_is(tmp_path: object) -> None:
    refused = """
import tempfile
def refuse(*_, **__): raise PermissionError("not here")
os.memfd_create = tempfile.TemporaryFile = refuse
"""
    assert ran(tmp_path, refused + GUARD, CUT).returncode == -signal.SIGBUS


def test_a_command_s_lost_file_is_none_of_the_next_command_s(tmp_path: object) -> None:
    block = (
        "from litert.core.mapped_files import lost_bytes, mapped_files_guarded\n"
        "def command():\n"
        "    with mapped_files_guarded(), open('large', 'r+b') as file:\n"
        "        mapped = map_file(file.fileno(), os.path.abspath('large'))\n"
        "        os.truncate('large', 100)\n"
        "        assert not any(mapped[:]) and lost_bytes()\n"
        "    assert lost_bytes() is None\n"
        "command(); os.truncate('large', 1 << 20); command()"
    )
    done = ran(tmp_path, "", block)
    assert done.returncode == 0, done.stderr
