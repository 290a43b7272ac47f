"""Compares the compilation of 1 GiB of weights with `cp` and `sync`, in time and in memory.

The memory is the difference between the peak memory of the command on this model and on a model with 1 MiB of
weights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import KERNELS, compile_with, noop, stock_apply_plugin
from benchmarks.harness import BUILD, Child, Row, at_most, compare, megabytes, run_checked
from benchmarks.models import GIB, with_weights

_RUNS = 7


def measure() -> Sequence[Row]:
    """Compiles the model and copies the file in turn."""
    kernel = KERNELS / "Sinh.cl"
    small, large = with_weights("Sinh", 1 << 20), with_weights("Sinh", GIB)
    output = BUILD / "large_model_npu.tflite"
    run_checked(compile_with("Sinh", kernel, small, output))  # builds the kernel
    start = run_checked(compile_with("Sinh", kernel, small, output))
    command = compile_with("Sinh", kernel, large, output)
    # Both commands end only when their output is on the disk.
    copy = ["sh", "-c", 'cp "$0" "$1" && sync "$1"', str(large), str(output)]
    times = compare(
        lambda: _anew(command, output).wall_s, lambda: _anew(copy, output).wall_s, _RUNS
    )
    stock = noop(stock_apply_plugin(), large, output)
    stock_times = compare(
        lambda: _anew(stock, output).wall_s, lambda: _anew(copy, output).wall_s, 2
    )
    memory = _anew(command, output).peak_bytes - start.peak_bytes
    stock_memory = megabytes(_anew(stock, output).peak_bytes)
    output.unlink()
    return [
        times.row(
            f"compiling 1 GiB of weights, compared with cp and sync (stock's noop: {stock_times.ratio:.1f})",
            1.3,
        ),
        at_most(
            "memory for compiling 1 GiB of weights (peer: stock's noop)",
            memory,
            80e6,
            megabytes,
            stock_memory,
        ),
    ]


def _anew(command: Sequence[str], output: Path) -> Child:
    """Runs a command after the old output is deleted and the disk has finished its writes."""
    output.unlink(missing_ok=True)
    os.sync()
    return run_checked(command)
