"""Tests progress bars on terminals and elsewhere."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator

import pytest
from litert_npu_tools.console import print_text
from litert_npu_tools.progress_bar import ProgressBar, ProgressStyle

from tests.terminals import Terminal


@pytest.fixture(autouse=True)
def style(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resets the style, which an earlier command line may have changed."""
    monkeypatch.setattr(ProgressBar, "style", ProgressStyle.AUTOMATIC)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with Terminal() as opened:
        yield opened


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_a_terminal_shows_step_count_and_time_left_in_a_line_that_is_cleared(
    terminal: Terminal, clock: list[float]
) -> None:
    with ProgressBar(terminal.stream) as progress:
        progress("compile", 0, 16)
        clock[0] = 2.0
        progress("compile", 4, 16)
        progress("compile", 5, 16)  # too soon after the last
        clock[0] = 20.0
        progress("write", 0, 1_200_000_000)
        clock[0] = 26.0
        progress("write", 600_000_000, 1_200_000_000)
        assert terminal.shows() == [
            "compile:  25%|###########                                  | 4/16, 00:06 left",
            "write:   0%|                                       | 0.00/1.20G, 00:00 passed",
            "write:  50%|####################                     | 600M/1.20G, 00:06 left",
        ]
    assert terminal.shows() == [""]


def test_a_message_is_not_written_into_the_bar(
    terminal: Terminal, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> None:
        clock[0] += 1
        progress("tune", 1, 2)

    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, terminal.stream)
    with ProgressBar() as progress:
        clock[0] = 2.0
        shown()
        print_text("local 64: 3 us", sys.stderr)
        shown()
        progress.note("local 32: 4 us")
        shown()
        print("a plugin in Python", end="")
        shown()  # the bar waits until the plugin's line ends
        print(" says more")
        shown()
        print("an extension warns", file=sys.stderr)
        lines = [line.removesuffix("\n") for line in terminal.shows()]
    assert [line for line in lines if line and not line.startswith("tune: ")] == [
        "local 64: 3 us",
        "local 32: 4 us",
        "a plugin in Python says more",
        "an extension warns",
    ]
    assert sum(line.startswith("tune: ") for line in lines) == 4
    assert sys.stderr is terminal.stream


@pytest.mark.parametrize("columns", [0, 1, 20, 50, 300])
def test_the_bar_fits_a_line_of_any_width(
    terminal: Terminal, clock: list[float], columns: int
) -> None:
    terminal.resize(columns)
    with ProgressBar(terminal.stream) as progress:
        clock[0] = 2.0
        progress("conformance", 1, 7)
        (line,) = terminal.shows()
        assert 0 < len(line) <= (columns or 80) and ("|" in line) == (columns in (0, 50, 300))


@pytest.mark.parametrize("total", [0, 7])
def test_elsewhere_there_is_a_line_every_few_seconds(clock: list[float], total: int) -> None:
    stream = io.StringIO()
    with ProgressBar(stream) as progress:
        for second in range(12):
            clock[0] = float(second)
            progress("check", second // 2, total)
    expected = ["check: 2/7, 00:05 passed, 00:12 left", "check: 5/7, 00:10 passed, 00:04 left"]
    if not total:
        expected = ["check: 2, 00:05 passed", "check: 5, 00:10 passed"]
    assert stream.getvalue().splitlines() == expected


@pytest.mark.parametrize("why", ["dumb", "logs"])
def test_a_terminal_that_cannot_change_a_line_gets_lines(
    why: str, terminal: Terminal, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    else:
        monkeypatch.setattr(ProgressBar, "style", ProgressStyle.LINES)
    with ProgressBar(terminal.stream) as progress:
        clock[0] = 6.0
        progress("check", 1, 2)
        assert terminal.shows() == ["\n"]  # only whole lines


def test_a_step_that_takes_long_shows_that_time_passes() -> None:
    seen = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if "build: 3/9" in text:
                seen.set()
            return len(text)

    with ProgressBar(Stream(), interval_s=0.01) as progress:
        progress("build", 3, 9)
        assert seen.wait(60)


def test_short_work_and_quiet_work_show_nothing(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    with ProgressBar(stream) as progress:
        clock[0] = 4.0
        progress("write", 1, 1)
    assert not stream.getvalue()
    monkeypatch.setattr(ProgressBar, "style", ProgressStyle.QUIET)
    with ProgressBar(stream) as progress:
        clock[0] = 900.0
        progress("write", 1, 2)
        progress.note("a candidate was tried")
    assert not stream.getvalue()


def test_a_stream_that_cannot_be_written_does_not_end_the_work(clock: list[float]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full, ProgressBar(full) as progress:
        for second in range(20):
            clock[0] = float(second)
            progress("write", second, 20)
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # so that close() succeeds
