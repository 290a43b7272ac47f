"""The guide to builtin ops lists those of the library, as they declare themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from vendor_reference.compiler.library.library_op import library_ops

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "builtin_ops.md"
HEAD, END = "| op | layer | types | besides |\n|---|---|---|---|\n", "<!-- end of the list -->"


def test_the_list_of_builtin_ops_is_the_librarys(request: pytest.FixtureRequest) -> None:
    rows = ""
    for op in library_ops().values():
        besides = "; ".join(op.constraints)
        rows += f"| {op.name} | `IE.{op.ie_name}` | {op.types_text()} | {besides} |\n"
    before, rest = GUIDE.read_text().split(HEAD, 1)
    found, after = rest.split(END, 1)
    if request.config.getoption("--golden"):
        GUIDE.write_text(f"{before}{HEAD}{rows}{END}{after}")
        return
    assert found == rows, "`make golden` writes it"
