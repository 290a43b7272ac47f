"""Tests that the bash and python blocks of the documents run, in order, in a folder of their own.

Packages that the blocks install are removed with the folder.

A block after `<!-- not run -->` is skipped. A block after `<!-- file PATH -->` is written to that file. A block
after `<!-- prints -->` has lines that the previous command prints; times may differ, and `…` stands for any text.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from corpus import downloads

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- ([^\n]*) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"\d+\.\d+ (m?s)\b")
FOLDERS = (
    "benchmarks|compiler_plugin|corpus|dispatch|docs|examples|litert|tests|tools|vendor_reference"
)
LINK = re.compile(rf"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)|`((?:{FOLDERS})/[\w./]+)`")
HEADING = re.compile("^#+ (.+)$", re.MULTILINE)


def blocks(document: Path) -> list[tuple[str, str, str]]:
    """Returns marker, language and text of each block that is run, written or compared."""
    found = BLOCK.findall(document.read_text())
    return [
        block
        for block in found
        if block[0] != "not run" and (block[0] or block[1] in ("bash", "python"))
    ]


def check_printed(text: str, printed: str) -> None:
    """Checks that the printed lines include the expected lines in their order."""
    lines = iter(SECONDS.sub(r"# \1", printed).splitlines())
    for line in SECONDS.sub(r"# \1", text).splitlines():
        if line != "…":
            wanted = re.compile(".*".join(map(re.escape, line.rstrip().split("…"))))
            assert any(wanted.fullmatch(other.rstrip()) for other in lines), f"{line}\n{printed}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("networks", "portrait")
def test_a_document_s_commands_run(
    document: Path,
    tmp_path: Path,
    own_environment: dict[str, str],
    request: pytest.FixtureRequest,
) -> None:
    all_text = document.read_text()
    if re.search(r"\bcc -std|lang=c\b|vendor export", all_text) and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    if re.search(r"lang=cpp|\bc\+\+ -", all_text) and shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    if "patch -p0" in all_text and shutil.which("patch") is None:
        pytest.skip("no patch")
    if "pip install" in all_text:
        request.getfixturevalue("wheel_builder")
    if "IntelOpenVINO" in all_text:
        request.getfixturevalue("intel")
    for folder in ("examples", "benchmarks", "tests", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "downloads").symlink_to(downloads.FOLDER)
    commands = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": ["python", "-c"]}
    printed = ""
    for marker, language, text in blocks(document):
        if marker.startswith("file "):
            path_of_file = tmp_path / marker.removeprefix("file ")
            path_of_file.parent.mkdir(parents=True, exist_ok=True)
            path_of_file.write_text(text)
            continue
        if marker == "prints":
            check_printed(text, printed)
            continue
        result = subprocess.run(
            [*commands[language], text],
            cwd=tmp_path,
            env=own_environment,
            capture_output=True,
            text=True,
        )
        printed = result.stdout + result.stderr
        assert result.returncode == 0, f"{text}\n{printed}"


@pytest.mark.parametrize(
    "document",
    [*DOCUMENTS, *sorted(ROOT.glob("examples/*/README.md"))],
    ids=lambda path: path.relative_to(ROOT).with_suffix("").as_posix(),
)
def test_files_and_headings_that_a_document_names_exist(document: Path) -> None:
    for link, heading, name in LINK.findall(document.read_text()):
        path = ROOT / name if name else document.parent / link if link else document
        assert path.exists(), path
        assert not heading or heading in headings(path), f"{link}#{heading}"


def headings(document: Path) -> list[str]:
    """Returns the headings as links name them."""
    found = HEADING.findall(document.read_text())
    return [re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in found]
