"""What commands print, on terminals and elsewhere."""

from __future__ import annotations

import io

import pytest
from litert_npu_tools.console import ProgressBar, print_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_what_a_terminal_could_obey_is_escaped() -> None:
    stream = io.StringIO()
    print_text("a\n\x1b[2J\r\udc80é", stream)
    assert stream.getvalue() == "a\n\\x1b[2J\\r\\udc80é\n"


def test_what_an_encoding_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii")
    print_text("é", stream)
    assert raw.getvalue() == b"\\xe9\n"


def test_long_work_shows_how_far_it_is_and_clears_the_line(clock: list[float]) -> None:
    terminal = Terminal()
    with ProgressBar(terminal) as progress:
        progress("write", 0, 100)
        assert not terminal.getvalue()
        clock[0] = 1.0
        progress("write", 50, 100)
        progress("write", 51, 100)  # too soon after the last
        assert terminal.getvalue().count("\r") == 1
        assert " 50%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_nothing_is_shown_where_nobody_watches(clock: list[float]) -> None:
    stream = io.StringIO()
    with ProgressBar(stream) as progress:
        clock[0] = 9.0
        progress("write", 1, 0)
    assert not stream.getvalue()
