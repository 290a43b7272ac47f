"""`python -m benchmarks [NAME ...]`: runs the named benchmarks, or all benchmarks, and prints a table.

A benchmark is a module of this folder whose function `measure()` returns rows of the table. Modules without
`measure` are helpers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.harness import BUILD, Row, machine

_COLUMNS = ("claim", "ours", "peer", "ratio (spread)", "limit", "")


def main(argv: Sequence[str]) -> None:
    """Runs the benchmarks that the command line names."""
    known = _benchmarks()
    unknown = [name for name in argv if name not in known]
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(unknown)}; the benchmarks are {', '.join(known)}")
    BUILD.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in argv or known:
        print(f"... {name}", flush=True, file=sys.stderr)
        rows += known[name]()
    lines = [_COLUMNS, *map(_cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS))]
    print(f"Medians on {machine()}")
    for line in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def _benchmarks() -> Mapping[str, Callable[[], Sequence[Row]]]:
    names = [path.stem for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))]
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    return {name: module.measure for name, module in modules.items() if hasattr(module, "measure")}


def _cells(row: Row) -> tuple[str, ...]:
    verdict = "holds" if row.holds else "DOES NOT HOLD"
    return row.claim, row.ours, row.peer, row.ratio, row.limit, verdict


if __name__ == "__main__":
    main(sys.argv[1:])
