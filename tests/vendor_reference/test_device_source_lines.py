"""Tests that errors at a place in a program's text show the author's own line."""

from __future__ import annotations

import pytest

from vendor_reference.programs.program_text import (
    find_source_line,
    show_place,
    with_source_lines,
)

TEXT = """
#line 1 "defines of this op"
#define N 4

#line 1 "a/k.cl"
first of k

#line 1 "a/h.h"
first of h
\tsecond of h

#line 3 "a/k.cl"
third of k
#line 1 "with \\"quotes\\".cl"
quoted
"""


@pytest.mark.parametrize(
    ("file_name", "line", "found"),
    [
        ("defines of this op", 1, "#define N 4"),
        ("a/k.cl", 1, "first of k"),
        ("a/k.cl", 3, "third of k"),
        ("a/h.h", 2, "\tsecond of h"),
        ('with "quotes".cl', 1, "quoted"),
        ("a/k.cl", 4, None),
        ("h.h", 1, None),
    ],
)
def test_a_line_is_found_in_its_file(file_name: str, line: int, found: str | None) -> None:
    assert find_source_line(TEXT, file_name, line) == found


def test_the_caret_is_below_the_column() -> None:
    line, caret = show_place(TEXT, "a/h.h", 2, 9)
    assert line == "    2 |  second of h" and caret[line.index("of")] == "^"
    assert show_place(TEXT, "a/k.cl", 3, 99) == ["    3 | third of k"]
    assert show_place(TEXT, "elsewhere", 3, 1) == []


def test_each_message_of_a_log_gets_its_line() -> None:
    log = "error: a/k.cl:3:1: one\nnote: it goes on\nwarning: a/h.h:1:7: two\n1 error generated."
    assert with_source_lines(log, TEXT).split("\n") == [
        "error: a/k.cl:3:1: one",
        "    3 | third of k",
        "      | ^",
        "note: it goes on",
        "warning: a/h.h:1:7: two",
        "    1 | first of h",
        "      |       ^",
        "1 error generated.",
    ]
    assert with_source_lines(log, "") == log
