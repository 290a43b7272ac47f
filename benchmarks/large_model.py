"""A model with 1 GiB of weights is compiled in 1.3 times what `cp` and `sync` take at most, in 80 MB of memory.

The memory is what it has at its peak beyond the same command on a model without the weights.
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
    """Compiles and copies in turn."""
    kernel = KERNELS / "Sinh.cl"
    small, large = with_weights("Sinh", 1 << 20), with_weights("Sinh", GIB)
    output = BUILD / "large_model_npu.tflite"
    run_checked(compile_with("Sinh", kernel, small, output))  # builds the kernel
    start = run_checked(compile_with("Sinh", kernel, small, output))
    command = compile_with("Sinh", kernel, large, output)
    # Both are on the disk when they are done.
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
            f"1 GiB of weights, compiled, to cp and sync (stock's noop: {stock_times.ratio:.1f})",
            1.3,
        ),
        at_most("its memory (stock's noop)", memory, 80e6, megabytes, stock_memory),
    ]


def _anew(command: Sequence[str], output: Path) -> Child:
    """Runs a command that finds neither an output to overwrite nor a disk that is busy with the last one."""
    output.unlink(missing_ok=True)
    os.sync()
    return run_checked(command)
