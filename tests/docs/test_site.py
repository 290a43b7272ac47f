"""Tests that the documentation site builds without a warning, works offline and has no dead link."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="no Sphinx, which the extra `docs` installs")

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
LOADS = {"img": "src", "link": "href", "script": "src"}
"""The attributes that name a file which a browser loads to show a page."""


class _Page(HTMLParser):
    """Collects the anchors, links and loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag in LOADS and LOADS[tag] in values:
            self.loaded.add(values[LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    flags = ["-q", "-W", "--keep-going", "-c", "docs/site", "-d", str(folder / "doctrees")]
    result = subprocess.run(
        [sys.executable, "-m", "sphinx", *flags, ".", str(folder / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in site.rglob("*.html")}


def test_each_document_is_a_page_of_the_contents(pages: dict[Path, _Page], site: Path) -> None:
    links = pages[site / "index.html"].links
    for document in PAGES:
        page = document.relative_to(ROOT).with_suffix(".html").as_posix()
        assert site / page in pages
        assert page in links or page == "README.html"


def test_no_link_of_the_site_is_dead(pages: dict[Path, _Page]) -> None:
    dead = []
    for page in pages.values():
        for link in page.links | page.loaded:
            url = urlsplit(link)
            if url.scheme:
                continue
            target = (page.path.parent / unquote(url.path)).resolve() if url.path else page.path
            anchors = pages[target].anchors if target in pages else set()
            if not target.is_file() or (url.fragment and unquote(url.fragment) not in anchors):
                dead.append(f"{page.path.name}: {link}")
    assert not dead


def test_the_site_loads_nothing_from_a_network(pages: dict[Path, _Page], site: Path) -> None:
    for page in pages.values():
        remote = [file for file in page.loaded if urlsplit(file).netloc or urlsplit(file).scheme]
        assert not remote, page.path
    for sheet in site.rglob("*.css"):
        text = sheet.read_text()
        assert "url(http" not in text and "url(//" not in text and "@import" not in text, sheet
