"""Tests how users read a page: sorting tables, opening groups, following edges, on a phone, with dark colors."""

from __future__ import annotations

from pathlib import Path

import pytest
from litert_npu_tools.page.graph import show_graph
from litert_npu_tools.page.html_file import html_text
from litert_npu_tools.page.page import Column, Measure, Page, Quantity, ShownSpan, Table

from tests.tools.page.browser import Browser
from tests.tools.page.test_pages import chain

LENGTH = 60


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a chain of ops in groups; ops 20 to 39 are an NPU call, and op 7 exceeds its limit."""
    model = chain(*(f"Op{index}" for index in range(LENGTH)))
    calls = {(0, index): "Partition_1" for index in range(20, 40)}
    seconds = {f"0/{index}": 1e-6 * index for index in range(LENGTH)}
    measure = Measure("Time", Quantity.SECONDS, seconds, flagged={"0/7": "too long"})
    rows = [[f"Op{index}", "", 1e-6 * index] for index in range(LENGTH)]
    table = Table(
        "Ops",
        [Column("Op"), Column("Problem"), Column("Time", Quantity.SECONDS)],
        rows,
        nodes=list(seconds),
    )
    shown = Page(
        "a model with a long name " * 5,
        "what was done",
        [("Target", "Null NULL1")],
        ["a warning"],
        show_graph(model, calls),
        [measure],
        [ShownSpan("call", "Partition_1", 0.0, 0.001, "main", {"op": "Op20"})],
        tables=[table],
    )
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(html_text(shown), encoding="utf-8")
    return path


def test_a_heading_sorts_and_a_text_filters(browser: Browser, page: Path) -> None:
    browser.open(page)
    heading, first = "#table-0 th:nth-child(2) button", "#table-0 tbody tr:first-child td"
    assert browser.texts(first) == ["Op0", "0.00"]
    browser.click(heading)
    assert browser.texts(first) == ["Op59", "59.00"]
    browser.click(heading)
    assert browser.texts(first) == ["Op0", "0.00"]
    assert browser.texts("#table-0 th") == [
        "Op",
        "Time (µs)",
    ]  # a column without text is not shown
    browser.evaluate("document.querySelector('#table-0 input').value = 'op5'")
    browser.evaluate("document.querySelector('#table-0 input').dispatchEvent(new Event('input'))")
    assert len(browser.texts("#table-0 tbody tr")) == 11  # Op5 and Op50 to Op59


def test_a_group_opens_with_its_sum_and_closes(browser: Browser, page: Path) -> None:
    browser.open(page)
    groups = [name for name in browser.texts("#graph .node .name") if name.startswith("▸")]
    assert 2 < len(groups) < LENGTH / 2
    assert browser.evaluate("document.querySelectorAll('#graph .node.flagged').length") == 1
    browser.click("#graph .node.flagged")
    assert "Op7" in browser.texts("#graph .node .name")
    assert browser.texts("#graph .node.flagged .value") == ["7.00 µs"]
    browser.click("#graph .node:has(.open-box)")
    assert [n for n in browser.texts("#graph .node .name") if n.startswith("▸")] == groups


def test_a_row_leads_to_its_op_and_arrow_keys_along_the_edges(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.click("#table-0 tbody tr:nth-child(30) button")
    assert browser.texts(".details h3") == ["Op29"]
    assert "NPU, Partition_1" in browser.texts(".details div")
    assert browser.evaluate("document.activeElement.querySelector('.name').textContent") == "Op29"
    browser.press("ArrowDown")
    assert browser.texts(".details h3") == ["Op30"]
    browser.press("ArrowUp")
    browser.press("ArrowUp")
    assert browser.texts(".details h3") == ["Op28"]


def test_an_op_is_found_by_a_tensor_s_name(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate(
        "(find => { find.value = 'T45'; find.focus(); })(document.querySelector('#graph input[type=search]'))"
    )
    browser.press("Enter")
    assert browser.texts(".details h3") == ["Op44"]


def test_a_stretch_of_the_time_line_says_what_it_is(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.click("#time-line .bar")
    assert browser.texts("#time-line .picked") == [
        "Partition_1 (call): 1.00 ms, from 0 µs; op Op20"
    ]


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_the_screen_and_follows_the_system_s_colors(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    browser.open(page, width, scheme)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    color = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, color.removeprefix("rgb(").removesuffix(")").split(","))) / 3
    assert (brightness > 200) is (scheme == "light")
    browser.evaluate("document.getElementById('theme').value = 'dark'")
    browser.evaluate("document.getElementById('theme').dispatchEvent(new Event('change'))")
    assert browser.evaluate("document.documentElement.dataset.theme") == "dark"
    browser.evaluate("localStorage.clear()")
