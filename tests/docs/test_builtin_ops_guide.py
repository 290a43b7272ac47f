"""Tests that the guide to builtin ops lists the ops of the library as they declare themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vendor_reference.random_ops import NEED_SCALES, find_maker
from vendor_reference.compiler.library.library_op import FLOATS, LibraryOp, library_ops

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "builtin_ops.md"
HEAD = (
    "| op | name in the [IR](levels.md) | types | further conditions | values of options in tests "
    "| largest allowed difference from stock LiteRT |\n"
    "|---|---|---|---|---|---|\n"
)
END = "<!-- end of the list -->"


def test_the_list_of_builtin_ops_is_the_librarys(request: pytest.FixtureRequest) -> None:
    rows = ""
    for op in library_ops().values():
        cells = [op.name, f"`IE.{op.ie_name}`", op.types_text(), "; ".join(op.constraints)]
        rows += f"| {' | '.join([*cells, *_tried(op)])} |\n"
    before, rest = GUIDE.read_text().split(HEAD, 1)
    found, after = rest.split(END, 1)
    if request.config.getoption("--golden"):
        GUIDE.write_text(f"{before}{HEAD}{rows}{END}{after}")
        return
    assert found == rows, "`make golden` writes it"


def _tried(op: LibraryOp) -> tuple[str, str]:
    """Returns the options of the op's random calls, and the allowed difference from stock's results."""
    maker = find_maker(op)
    if maker is None or op.name in NEED_SCALES:
        return "", "one step of the quantized tensor"
    options = [
        f"{key} {', '.join(str(v) for v in dict.fromkeys(values))}"
        for key, values in maker.options.items()
    ]
    floats = [t.name.lower() for t in op.types if t in FLOATS]
    limits = {name: limit for name in floats if (limit := maker.limit(name))}
    text = ", ".join(f"{limit:.0e} in {name}" for name, limit in limits.items())
    return "; ".join(options), text or "exact"
