"""`make faults`: runs each command many times, and each time lets another call fail; exits with 1 for a problem.

With `--action=interrupt`, the call is interrupted by Ctrl-C instead; with `--action=kill`, the process is killed.
`--moments=300` kills each command at 300 random moments instead, and then runs it again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.commands import COMMANDS
from tests.faults.hook import ACTIONS
from tests.faults.trial import CommandTrial

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Tries each command in its own process, by default as many in parallel as there are cores."""
    parser = argparse.ArgumentParser(prog="make faults")
    parser.add_argument("commands", nargs="*", help="by default all: " + ", ".join(COMMANDS))
    parser.add_argument("--action", choices=ACTIONS, default="fail")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="commands at a time")
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--most", type=int, default=0, help="places of each command; 0 for all")
    parser.add_argument(
        "--moments", type=int, default=0, help="end each command at so many moments, not at places"
    )
    given = parser.parse_args()
    if unknown := sorted(set(given.commands) - set(COMMANDS)):
        parser.error(f"no command {', '.join(unknown)}; there are {', '.join(COMMANDS)}")
    if given.here:
        return max([_try_here(name, given) for name in given.commands], default=0)
    with ThreadPoolExecutor(given.jobs) as pool:
        return max(pool.map(partial(_try, given), given.commands or COMMANDS))


def _try(given: argparse.Namespace, name: str) -> int:
    options = [f"--{key}={getattr(given, key)}" for key in ("action", "most", "moments")]
    command = [sys.executable, "-m", "tests.faults", "--here", *options, name]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    child = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    print(child.stdout, end="", flush=True)
    return int(child.returncode != 0)


def _try_here(name: str, given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="litert-npu-faults-") as folder:
        trial = CommandTrial(name, Path(folder))
        if given.moments:
            tried = f"{given.moments} moments"
            problems = list(trial.try_moments(given.moments, Random(name)))
        else:
            places = trial.places()
            chosen = places[:: -(-len(places) // given.most) if given.most else 1]
            tried = f"{len(chosen)} of {len(places)} places"
            problems = list(trial.try_places(chosen, given.action))
    print(f"{name}: {tried}, {len({problem.place for problem in problems})} wrong")
    for problem in problems:
        print(f"  {problem.place}\n    {problem.what.strip()}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
