"""Tests that the README is short and names the installed version."""

from __future__ import annotations

from pathlib import Path

from litert.core.version import SDK_VERSION

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 150
"""The lines of the README before its reference, at most: three screens."""


def test_the_readme_fits_on_three_screens_before_its_reference() -> None:
    text, found, _ = (ROOT / "README.md").read_text().partition("\n## Documentation\n")
    assert found
    assert len(text.splitlines()) <= MOST_LINES


def test_the_changelog_and_the_package_tell_this_version() -> None:
    assert f"\n## {SDK_VERSION}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert f'\nversion = "{SDK_VERSION}"\n' in (ROOT / "pyproject.toml").read_text()
