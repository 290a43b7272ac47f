"""`apply_plugin` takes at most 0.15 s for --help, 0.25 s for info and noop, and 0.5 s for a small compilation.

The compiled model's kernel is already in the program cache. The claims limit only this project's times, because
stock LiteRT's command, which rows also show, is a native program and needs only a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.commands import APPLY_PLUGIN, KERNELS, compile_with, noop, stock_apply_plugin
from benchmarks.harness import BUILD, Row, compare, run_checked, run_child
from corpus.downloads import networks

_RUNS = 11


def measure() -> Sequence[Row]:
    """Runs each command and its peer in turn."""
    stock = stock_apply_plugin()
    network = networks() / "selfie_segmentation.tflite"
    output = BUILD / "start_up.tflite"
    op = "Convolution2DTransposeBias"
    compile_selfie = compile_with(op, KERNELS / f"{op}.json", network, output)
    run_checked(compile_selfie)  # builds the kernel
    return [
        _row("apply_plugin --help", [APPLY_PLUGIN, "--help"], [stock, "--help"], 0.15),
        _row("apply_plugin --cmd=info", [APPLY_PLUGIN, "--cmd=info"], [stock, "--cmd=info"], 0.25),
        _row(
            "apply_plugin --cmd=noop, 246 ops",
            noop(APPLY_PLUGIN, network, output),
            noop(stock, network, output),
            0.25,
        ),
        _row(
            "apply_plugin, kernel in the program cache",
            compile_selfie,
            noop(stock, network, output),
            0.5,
        ),
    ]


def _row(claim: str, ours: Sequence[str], peer: Sequence[str], limit_s: float) -> Row:
    times = compare(lambda: run_child(ours).wall_s, lambda: run_child(peer).wall_s, _RUNS)
    return times.absolute_row(claim, limit_s)
