"""Tests that the files and folders that the developers' page names exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "development.md").read_text()
TABLES = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))


def _named() -> list[str]:
    names = re.findall(r"`([\w./{},-]+)`", TABLES)
    paths = [name for name in names if "/" in name or name.endswith(".py")]
    spread = [re.fullmatch(r"(.*)\{(.*)\}(.*)", path) for path in paths]
    return [
        one
        for path, braces in zip(paths, spread, strict=True)
        for one in (
            [braces[1] + part + braces[3] for part in braces[2].split(",")] if braces else [path]
        )
    ]


@pytest.mark.parametrize("path", sorted(set(_named())))
def test_a_place_that_the_page_names_is_there(path: str) -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    if not files:
        pytest.skip("no git, which lists the project's files")
    assert re.search(rf"(^|/){re.escape(path)}(/|$)", files, re.MULTILINE)
