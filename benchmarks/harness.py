"""The basis of all benchmarks: measures two sides in turn, and makes rows of a table from the results.

The two sides must alternate, because the speed of a machine drifts, and because an OpenCL worker thread may wake
on another core for seconds. The ratio is the median of the ratios of all pairs, and its spread is given by their
quartiles.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "benchmarks"
"""Folder for the benchmarks' models; git ignores it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A claim, with its measurements.

    Attributes:
      ours, peer: Measured values of this project and of the peer, with units.
      ratio: Our value divided by the peer's, with its spread; "" if there is no peer.
      limit: The claimed limit, in words.
      holds: Whether the claim held in this run.
    """

    claim: str
    ours: str
    peer: str
    ratio: str
    limit: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Times of this project and of the peer in seconds, pair by pair."""

    ours: Sequence[float]
    peer: Sequence[float]

    @property
    def ratio(self) -> float:
        return median(self._ratios())

    def spread(self) -> str:
        """The ratio and the quartiles around it: `0.71 (0.69-0.74)`."""
        low, middle, high = quantiles(self._ratios(), n=4)
        return f"{middle:.2f} ({low:.2f}-{high:.2f})"

    def row(self, claim: str, at_most: float) -> Row:
        """Returns the row of a claim that limits the ratio."""
        return self._row(claim, f"ratio <= {at_most:g}", self.ratio <= at_most)

    def absolute_row(self, claim: str, at_most_s: float) -> Row:
        """Returns the row of a claim that limits only this project's time."""
        return self._row(claim, f"<= {seconds(at_most_s)}", median(self.ours) <= at_most_s)

    def _row(self, claim: str, limit: str, holds: bool) -> Row:
        ours, peer = seconds(median(self.ours)), seconds(median(self.peer))
        return Row(claim, ours, peer, self.spread(), limit, holds)

    def _ratios(self) -> Sequence[float]:
        return [ours / peer for ours, peer in zip(self.ours, self.peer, strict=True)]


def alternate(
    ours: Callable[[], object], peer: Callable[[], object], runs: int, warm_up: int = 3
) -> Comparison:
    """Measures the times of two functions in turn; the first of a pair is the second of the next pair."""
    return compare(lambda: _time(ours), lambda: _time(peer), runs, warm_up)


def compare(
    ours: Callable[[], float], peer: Callable[[], float], runs: int, warm_up: int = 1
) -> Comparison:
    """Same as `alternate`, but the functions measure and return their own times, in seconds."""
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(warm_up + runs):
        pair = [0.0, 0.0]
        for side in (0, 1) if i % 2 else (1, 0):
            pair[side] = (ours, peer)[side]()
        if i >= warm_up:
            times[0].append(pair[0])
            times[1].append(pair[1])
    return Comparison(*times)


@dataclass(frozen=True, slots=True)
class Child:
    """The result of a command.

    Attributes:
      status: Exit status; negative for a signal; None if the command ran past its time limit.
      peak_bytes: Peak memory of the command, in bytes; at least about 10 MB.
      output, errors: Text that the command wrote to standard output and standard error.
    """

    status: int | None
    wall_s: float
    peak_bytes: int
    output: str
    errors: str


# A process between the benchmark and the command, because after exec a child's peak memory still includes its
# parent's memory. This process waits without a time limit and leaves the limit to a timer, because Python waits
# with a time limit in steps of up to 50 ms.
_LAUNCHER = """
import json, os, resource, subprocess, sys, threading, time
arguments = json.loads(sys.argv[1])
start = time.perf_counter()
child = subprocess.Popen(arguments["argv"])
timer = threading.Timer(arguments["timeout_s"], child.kill)
timer.start()
status = child.wait()
wall_s = time.perf_counter() - start
ran_out = timer.finished.is_set()
timer.cancel()
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
peak *= 1 if sys.platform == "darwin" else 1024
report = [None if ran_out else status, wall_s, peak]
os.write(int(arguments["report"]), json.dumps(report).encode())
"""


def run_child(
    argv: Sequence[str | os.PathLike[str]],
    timeout_s: float = 600,
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Runs a command, and measures its time and its memory."""
    read_end, write_end = os.pipe()
    arguments = {"argv": [os.fspath(a) for a in argv], "timeout_s": timeout_s, "report": write_end}
    try:
        result = subprocess.run(
            [sys.executable, "-S", "-E", "-c", _LAUNCHER, json.dumps(arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            pass_fds=[write_end],
            env=installed_environment() | dict(environment or {}),
        )
        os.close(write_end)
        with open(read_end, "rb", closefd=False) as report:
            status, wall_s, peak_bytes = json.loads(report.read())
    finally:
        os.close(read_end)
    return Child(status, wall_s, peak_bytes, result.stdout, result.stderr)


def installed_environment() -> dict[str, str]:
    """Returns this process's environment, but lets Python cache compiled modules, as an installed package does."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run_checked(
    argv: Sequence[str | os.PathLike[str]], environment: Mapping[str, str] | None = None
) -> Child:
    """Same as `run_child`, but raises an error if the command fails."""
    child = run_child(argv, environment=environment)
    if child.status != 0:
        command = " ".join(str(argument) for argument in argv)
        raise RuntimeError(f"{command}\n{child.output}{child.errors}\nexit status {child.status}")
    return child


def at_most(claim: str, value: float, limit: float, unit: Callable[[float], str], peer: str) -> Row:
    """Returns the row of a claim that limits an absolute number; `peer` is the text of the peer's value."""
    return Row(claim, unit(value), peer, "", f"<= {unit(limit)}", value <= limit)


def seconds(value: float) -> str:
    """Formats a time as `1.20 s`, `3.4 ms` or `25 us`."""
    if value >= 1:
        return f"{value:.2f} s"
    if value >= 1e-3:
        return f"{value * 1e3:.3g} ms"
    return f"{value * 1e6:.3g} us"


def megabytes(value: float) -> str:
    """Formats a size as `80 MB`; 1 MB is 10^6 bytes."""
    return f"{value / 1e6:.0f} MB"


def machine() -> str:
    """Describes the machine and the software of the measurement: processor, cores, Python, commit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    commit = _git("rev-parse", "--short", "HEAD") or "no commit"
    changed = " with changes" if _git("status", "--porcelain", "--untracked-files=no") else ""
    python = platform.python_version()
    return f"{_processor()}, {cores} cores, Python {python}, commit {commit}{changed}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return result.stdout.strip()


def _time(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
