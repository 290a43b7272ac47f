"""Tests that a check's finding keeps what was printed during the check, however it was printed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from litert.conformance.children import CheckPrints

SCRIPT = """
import os
from litert.conformance.children import mark_begins
for answer in mark_begins([{"begin": "a.one"}, {"rule": "a.one"}, {"begin": "a.two (x)"}, {"begin": "b"}]):
    os.write(2, b"in " + answer.get("begin", "no check").encode())
"""


@pytest.fixture(scope="module")
def printed() -> bytes:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=True).stderr


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_each_check_has_what_was_printed_in_it(printed: bytes, size: int) -> None:
    prints = CheckPrints()
    prints.add(b"before all")
    for start in range(0, len(printed), size):
        prints.add(printed[start : start + size])
    assert prints.of("a.one") == "in a.onein no check"
    assert prints.of("a.two (x)") == "in a.two (x)" and prints.of("b") == "in b"
    assert prints.of("c") == ""


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_of_a_vendor_that_prints_without_end_the_beginning_is_kept(end: bytes) -> None:
    prints = CheckPrints()
    prints.add(b"\x1ea\nfirst\n")
    for _ in range(1000):
        prints.add(b"x" * 10_000 + end)
    text = prints.of("a")
    assert text.startswith("first\nxxx") and len(text) < 40_000
    prints.add(b"\n\x1eb\nsecond")
    assert prints.of("b") == "second"
