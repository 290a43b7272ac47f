"""`make fuzz`: fuzzes the named targets, or all targets, for some seconds each; exits with 1 if it finds a defect.

If Atheris is installed, it chooses inputs that reach new code; otherwise the inputs are random.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.target import target_names
from tests.fuzz.trials import ROOT, Outcome, try_target

_FOLDER = ROOT / "build" / "fuzz"


def main() -> int:
    """Tries the targets in parallel, by default one for each core, and prints a line for each target."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("targets", nargs="*", help="by default all: " + ", ".join(target_names()))
    parser.add_argument("--seconds", type=float, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of random numbers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at a time")
    given = parser.parse_args()
    unknown = sorted(set(given.targets) - set(target_names()))
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(target_names())}")
    has_atheris = find_spec("atheris") is not None
    how = (
        "Atheris chooses inputs" if has_atheris else "no Atheris for this Python: inputs by chance"
    )
    print(f"{how}; seed {given.seed}; findings in {_FOLDER}", flush=True)
    failed = False
    with ThreadPoolExecutor(given.jobs) as pool:
        attempt = partial(_try, given.seconds, given.seed, has_atheris)
        for outcome in pool.map(attempt, given.targets or target_names()):
            failed |= bool(outcome.findings)
            print(
                f"  {outcome.target:24} {outcome.runs:>10,} runs  {_verdict(outcome)}", flush=True
            )
    return int(failed)


def _try(seconds: float, seed: int, by_coverage: bool, name: str) -> Outcome:
    return try_target(
        name, _FOLDER / name, seconds=seconds, seed=seed % 2**31, by_coverage=by_coverage
    )


def _verdict(outcome: Outcome) -> str:
    inputs = [path for path in outcome.findings if path.suffix != ".txt"]
    return ", ".join(map(_described, inputs)) or "no finding"


def _described(path: Path) -> str:
    last = path.with_suffix(".txt").read_text().strip().splitlines()[-1:]
    return f"{path.name} ({''.join(last)[:150]})"


if __name__ == "__main__":
    sys.exit(main())
