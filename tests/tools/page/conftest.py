"""Fixtures for the tests of HTML pages: a browser that draws a page, and the data that its script reads."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.tools.page.browser import Browser


class Drawn(NamedTuple):
    """A page that a browser has drawn: its document as text, and what it printed on its console."""

    document: str
    console: str

    def count(self, pattern: str) -> int:
        """Returns how often a regular expression matches in the document."""
        return len(re.findall(pattern, self.document))


class Elements(HTMLParser):
    """Collects the elements and attributes of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)


Draw = Callable[..., Drawn]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium draws the page: apt install chromium")
    with Browser(program, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def draw(browser: Browser) -> Draw:
    """A function that opens a page's file in Chromium, in a window of some width, at a fragment."""

    def run(page: Path, width: int = 1400, place: str = "") -> Drawn:
        browser.open(page, width, place=place)
        document: str = browser.evaluate("document.documentElement.outerHTML")
        return Drawn(document, "\n".join(browser.said))

    return run


def page_data(page: Path) -> dict[str, Any]:
    """Returns the data that a page's script reads."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def op_nodes(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the ops of a page's graph by their ids."""
    nodes = (node for subgraph in data["graph"] for node in subgraph["nodes"])
    left_out = {"call": "", "reason": "", "is_constant": False}
    return {node["id"]: left_out | node for node in nodes if node["kind"] == "op"}
