"""No network is slower with `--reference_ops=auto` than with `none`; rows also show the report's expected times.

MediaPipe's 14 networks are compiled with the values `none`, `auto` and `all`, and their custom ops with the
kernels in `examples`. A file with other ops on the NPU than the file of `none` runs in turn with that file, each
in its own process. The environment variable LITERT_NPU_NETWORKS limits the benchmark to some networks, separated
by commas.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.commands import APPLY_PLUGIN
from benchmarks.engine import OURS, Engine
from benchmarks.harness import BUILD, Comparison, Row, at_most, compare, run_checked, seconds
from corpus.downloads import networks
from corpus.whole_network import assets_of, picture_for
from litert.model.builder import ModelBuilder
from vendor_reference.compiler.auto_selection import find_losses
from vendor_reference.compiler.op_times import OpTimes
from vendor_reference.cost_model import EMULATED

_TURNS = 15
_THREADS = (1, 2)
_NOISE = 1.05
_NUM_OPS = 10_000
_CHOICES = ("none", "auto", "all")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A network that was compiled with one value of `--reference_ops`.

    Attributes:
      path: Path of the compiled file.
      num_npu_ops, num_ops, num_calls: Numbers of ops on the NPU, of all ops, and of NPU calls.
      expected_s: Expected time of all NPU calls, in seconds.
    """

    path: Path
    num_npu_ops: int
    num_ops: int
    num_calls: int
    expected_s: float

    def __str__(self) -> str:
        if not self.num_calls:
            return "nothing"
        return f"{self.num_npu_ops} of {self.num_ops} ops in {self.num_calls} calls"


def measure() -> Sequence[Row]:
    """Compiles the networks in three ways, and runs the files in turn; measures the selection among many ops."""
    named = os.environ.get("LITERT_NPU_NETWORKS", "")
    paths = [networks() / f"{name}.tflite" for name in named.split(",") if name]
    rows = [row for path in paths or sorted(networks().glob("*.tflite")) for row in _rows(path)]
    return [*rows, _scale_row()]


def _rows(path: Path) -> Sequence[Row]:
    picture = BUILD / f"{path.stem}.npz"
    np.savez(picture, **picture_for(path))  # type: ignore[arg-type]
    none, *others = (_compile(path, choice) for choice in _CHOICES)
    rows = []
    for choice, made in zip(_CHOICES[1:], others, strict=True):
        for threads in _THREADS:
            claim = f"{path.stem}, {choice} against none, {threads} thread{'s' * (threads > 1)}: {made} on the NPU"
            if made.num_npu_ops == none.num_npu_ops:
                rows.append(Row(claim, "", "", "1.00", "the same ops", True))
                continue
            with (
                Engine(OURS, none.path, threads, picture) as first,
                Engine(OURS, made.path, threads, picture) as second,
            ):
                found = compare(second.seconds, first.seconds, _TURNS)
            rows.append(_time_row(claim, found, made, choice))
    return rows


def _time_row(claim: str, found: Comparison, made: _Compiled, choice: str) -> Row:
    row = found.row(f"{claim}, expected time of the calls {seconds(made.expected_s)}", _NOISE)
    return row if choice == "auto" else replace(row, limit="no limit", holds=True)


def _compile(path: Path, choice: str) -> _Compiled:
    compiled = BUILD / f"{path.stem}_{choice}.tflite"
    infos = [f"--npu_custom_op_info={op},{asset}" for op, asset in assets_of(path).items()]
    options = ["--quiet", "--report=json", f"--reference_ops={choice}"]
    report = json.loads(run_checked([APPLY_PLUGIN, *options, *infos, path, compiled]).output)
    ops, calls = report["ops"], report["calls"]
    times = [call["time"] for call in report["expected_times"]]
    expected = sum(t["ops_ns"] + t["transfers_ns"] + t["call_ns"] for t in times)
    return _Compiled(
        compiled, sum(bool(op["call"]) for op in ops), len(ops), len(calls), expected / 1e9
    )


def _scale_row() -> Row:
    """Measures the time of the selection in a model of many ops."""
    b = ModelBuilder()
    shape = (1, 16, 16, 8)
    made = [b.input("x", "float32", shape)]
    for index in range(_NUM_OPS):
        output = [(f"t{index}", "float32", shape)]
        name = "LOCAL_RESPONSE_NORMALIZATION" if index % 10 == 9 else "LOGISTIC"
        made.append(b.op(name, [made[-1 - index % 3 % len(made)]], output))
    b.output(made[-1])
    subgraph = b.build().subgraphs[0]
    taken = {op for op in subgraph.ops if op.name == "LOGISTIC"}
    start = time.perf_counter()
    find_losses(subgraph, taken, (), OpTimes(EMULATED, {}, lambda op: False))
    return at_most(f"selection among {_NUM_OPS:,} ops", time.perf_counter() - start, 5, seconds, "")
