"""`--cmd=noop` takes at most 1 s on 10,000 ops, and at most 2.2 times as long on 20,000 ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.commands import APPLY_PLUGIN, noop, stock_apply_plugin
from benchmarks.harness import BUILD, Row, compare, run_checked
from benchmarks.models import chain

_RUNS = 5


def measure() -> Sequence[Row]:
    """Reads and writes models that are chains of ADD ops."""
    short, long = chain(10_000), chain(20_000)
    stock = stock_apply_plugin()
    to_stock = compare(_noop(APPLY_PLUGIN, short), _noop(stock, short), _RUNS)
    growth = compare(_noop(APPLY_PLUGIN, long), _noop(APPLY_PLUGIN, short), _RUNS)
    stock_growth = compare(_noop(stock, long), _noop(stock, short), runs=2, warm_up=0)
    return [
        to_stock.absolute_row("noop, 10,000 ops", 1.0),
        growth.row(
            f"noop, 20,000 ops compared with 10,000 ops (stock: {stock_growth.ratio:.1f})", 2.2
        ),
    ]


def _noop(command: str, model: Path) -> Callable[[], float]:
    output = BUILD / "many_ops.tflite"
    return lambda: run_checked(noop(command, model, output)).wall_s
