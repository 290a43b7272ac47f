"""What the documents say to type works: their bash and python blocks run, in order, in a folder of their own.

A block behind `<!-- not run -->` is left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples import downloads

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- not run -->\n)?^```(bash|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)|`((?:docs|examples|tests|benchmarks)/[\w./]+)`")


def blocks(document: Path) -> list[tuple[str, str]]:
    """Language and text of what is to be run."""
    found = BLOCK.findall(document.read_text())
    return [(language, text) for skip, language, text in found if not skip]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("networks", "portrait")
def test_a_document_s_commands_run(document: Path, tmp_path: Path) -> None:
    if "cc -std" in document.read_text() and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    for folder in ("examples", "benchmarks", "tests", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "downloads").symlink_to(downloads.FOLDER)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
    for language, text in blocks(document):
        result = subprocess.run(
            [*commands[language], text],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, f"{text}\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_files_that_a_document_names_exist(document: Path) -> None:
    for link, name in LINK.findall(document.read_text()):
        path = document.parent / link if link else ROOT / name
        assert path.exists(), path
