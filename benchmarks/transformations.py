"""Transformed networks have fewer ops, are at most 10% slower in stock LiteRT, and have equal outputs within 1e-5.

The benchmark applies all enabled built-in transformations to MediaPipe's networks, and then each transformation
alone, enabled or not. Custom ops that stock LiteRT does not know are cut out of the networks (`stock_outputs.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import Row, compare, seconds
from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transformations.running import Transformations
from corpus.downloads import networks
from corpus.stock_outputs import (
    interpreter_of,
    largest_difference,
    open_model,
    run_values,
)
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import to_bytes

_RUNS = 60
_REPEATS = 3
_TOLERANCE = 1e-5
_SLOWER = 1.1
_UNKNOWN = ("fuse_swish",)
"""Transformations that make ops unknown to stock LiteRT."""


def measure() -> Sequence[Row]:
    """Transforms each network, and runs the old and the new network in turn."""
    paths = sorted(networks().glob("*.tflite"))
    return [*(_network_row(path) for path in paths), _alone_row(paths)]


@dataclass(frozen=True, slots=True)
class _Result:
    """The result for a network.

    Attributes:
      data: Bytes of the new file.
      matches: Number of matches of all transformations.
      before, after: Numbers of ops before and after the transformations.
      seconds: Time of the transformations, without reading and writing.
    """

    data: bytes
    matches: int
    before: int
    after: int
    seconds: float


def _network_row(path: Path) -> Row:
    results = [_transform(path, "all") for _ in range(_REPEATS)]
    result, spent = results[0], median(r.seconds for r in results)
    before, after = open_model(path.read_bytes()), open_model(result.data)
    ours, peer = interpreter_of(after, True), interpreter_of(before, True)
    times = compare(lambda: _run(ours), lambda: _run(peer), _RUNS)
    difference = _difference(path, result.data)
    claim = f"{path.stem}: {result.before} ops become {result.after} ops in {seconds(spent)}"
    limit = f"ratio <= {_SLOWER:g}, differs by {difference:.0e} <= {_TOLERANCE:g}"
    holds = times.ratio <= _SLOWER and difference <= _TOLERANCE and result.after <= result.before
    ours_s, peer_s = (seconds(median(side)) for side in (times.ours, times.peer))
    return Row(claim, ours_s, peer_s, times.spread(), limit, holds)


def _alone_row(paths: Sequence[Path]) -> Row:
    """Returns a row with the largest difference that a single transformation causes."""
    loaded = Transformations(TransformOptions()).extensions.transformations
    names = [item.name for item in loaded if item.origin.is_builtin and item.name not in _UNKNOWN]
    largest, matches = 0.0, 0
    for path in paths:
        for name in names:
            result = _transform(path, name)
            if result.matches:
                matches += result.matches
                largest = max(largest, _difference(path, result.data))
    claim = f"{len(names)} transformations alone, {matches} matches: largest difference"
    return Row(claim, f"{largest:.1e}", "", "", f"<= {_TOLERANCE:g}", largest <= _TOLERANCE)


def _transform(path: Path, selection: str) -> _Result:
    model = read_model(path)
    count = _count(model)
    transformations = Transformations(TransformOptions(selection=[selection]))
    start = time.perf_counter()
    transformations.run(model)
    spent = time.perf_counter() - start
    matches = sum(report.matches for report in transformations.reports())
    return _Result(bytes(to_bytes(model)), matches, count, _count(model), spent)


def _run(interpreter: Any) -> float:
    """Returns the CPU time of a run in seconds; the run uses only this thread, so other threads do not count."""
    start = time.thread_time()
    interpreter.invoke()
    return time.thread_time() - start


def _difference(path: Path, data: bytes) -> float:
    """Returns the largest difference of outputs, with XNNPACK and without XNNPACK."""
    before, after = open_model(path.read_bytes()), open_model(data)
    return max(
        largest_difference(run_values(before, xnnpack), run_values(after, xnnpack))
        for xnnpack in (True, False)
    )


def _count(model: Model) -> int:
    return sum(len(subgraph.ops) for subgraph in model.subgraphs)
