"""Tests that `make setup` takes the newest usable Python; Makefile, package and README name the same versions."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

STAND_IN = """#!/bin/sh
# Python {version} to `make setup`: says whether it is in range, and makes environments of itself.
case "$1 $2" in
  "-c "*) {answer} ;;
  "--version "*) echo "Python {version}" ;;
  "-m venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
  "-m pip") {pip} ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the project's Makefile, before any `make setup`."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    folder = tmp_path / "clone"
    (folder / "tests" / "null_vendor").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "pyproject.toml").touch()
    return folder


def install(folder: Path, version: str, *, usable: bool = True, pip: str = "true") -> Path:
    """Writes a stand-in for a Python into a folder beside the clone; returns its path."""
    programs = folder.parent / "bin"
    programs.mkdir(exist_ok=True)
    name = "python" + ".".join(version.split(".")[:2])
    answer = "true" if usable else "false"
    (programs / name).write_text(STAND_IN.format(version=version, answer=answer, pip=pip))
    (programs / name).chmod(0o755)
    return programs / name


def set_up(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    programs = folder.parent / "bin"
    programs.mkdir(exist_ok=True)
    for tool in ("awk", "cp", "env", "mkdir", "rm", "sh", "touch"):  # but no Python
        if not (programs / tool).exists():
            (programs / tool).symlink_to(str(shutil.which(tool)))
    make = str(shutil.which("make"))
    return subprocess.run(
        [make, "--no-print-directory", "setup", *arguments],
        cwd=folder,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
    )


def python_of(folder: Path) -> str:
    python = str(folder / ".venv" / "bin" / "python")
    return subprocess.check_output([python, "--version"], text=True).strip()


def test_the_newest_python_is_taken(clone: Path) -> None:
    for version in ("3.10.13", "3.13.0", "3.14.8", "3.9.18"):
        install(clone, version)
    done = set_up(clone)
    assert done.returncode == 0, done.stderr
    assert python_of(clone) == "Python 3.14.8"
    assert "Setting up .venv with Python 3.14.8" in done.stdout


def test_a_python_without_venv_is_passed_over(clone: Path) -> None:
    install(clone, "3.14.8", usable=False)
    install(clone, "3.13.0")
    assert set_up(clone).returncode == 0
    assert python_of(clone) == "Python 3.13.0"


def test_where_there_is_no_python_the_message_says_which_are_known(clone: Path) -> None:
    done = set_up(clone)
    assert done.returncode
    assert "No Python 3.10 to 3.14 with venv found" in done.stdout
    assert "python3.14 python3.13 python3.12 python3.11 python3.10 python3 python" in done.stdout


def test_an_environment_keeps_its_python_when_a_newer_one_comes(clone: Path) -> None:
    install(clone, "3.11.7")
    set_up(clone)
    (clone / ".venv" / ".ready").unlink()  # a newer pyproject.toml has the same effect
    install(clone, "3.14.8")
    done = set_up(clone)
    assert done.returncode == 0, done.stderr
    assert python_of(clone) == "Python 3.11.7"
    assert "Setting up" not in done.stdout


def test_a_python_that_is_named_makes_the_environment_anew(clone: Path) -> None:
    install(clone, "3.14.8", pip="false")
    assert set_up(clone).returncode
    older = install(clone, "3.11.7")
    assert set_up(clone, f"PYTHON={older}").returncode == 0
    assert python_of(clone) == "Python 3.11.7"


def test_an_environment_whose_python_is_gone_is_made_anew(clone: Path) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").symlink_to("/nowhere/python3.11")
    install(clone, "3.13.0")
    assert set_up(clone).returncode == 0
    assert python_of(clone) == "Python 3.13.0"


def test_packages_that_cannot_be_installed_are_said_with_the_python(clone: Path) -> None:
    install(clone, "3.14.8", pip="echo 'ERROR: No matching distribution' >&2; false")
    done = set_up(clone)
    assert done.returncode
    assert "No matching distribution" in done.stderr
    assert "cannot be installed for Python 3.14.8" in done.stdout
    assert "make PYTHON=/path/to/python3.11 setup" in done.stdout
    assert not (clone / ".venv" / ".ready").exists()


def test_the_pythons_that_the_package_names_are_those_that_make_takes() -> None:
    makefile, project = (ROOT / "Makefile").read_text(), (ROOT / "pyproject.toml").read_text()
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project) == list(PYTHONS)
    tried = makefile.split("PYTHONS :=")[1].split("\n")[0]
    assert re.findall(r"python(3\.\d+)", tried) == list(reversed(PYTHONS))
    first, last = (version.replace(".", ", ") for version in (PYTHONS[0], PYTHONS[-1]))
    assert f"({first}) <= sys.version_info[:2] <= ({last})" in makefile
    assert f'requires-python = ">={PYTHONS[0]}"' in project
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in (ROOT / "README.md").read_text()
