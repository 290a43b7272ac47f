"""Tests how printed text is escaped, on terminals and elsewhere."""

from __future__ import annotations

import io

from litert_npu_tools.console import print_text


def test_what_a_terminal_could_obey_is_escaped() -> None:
    stream = io.StringIO()
    print_text("a\n\x1b[2J\r\udc80é", stream)
    assert stream.getvalue() == "a\n\\x1b[2J\\r\\udc80é\n"


def test_what_an_encoding_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii")
    print_text("é", stream)
    assert raw.getvalue() == b"\\xe9\n"
