"""The child process of the fuzzer: `python -m tests.fuzz.trial` tries many inputs on one target.

The child writes each input to a file before it tries the input, so that the parent finds the input that ended the
process.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from random import Random

from litert.core.errors import LiteRtError
from tests.fuzz.target import Target, load_target

CURRENT = "current"
"""Name of the file with the number of runs, the size of the current input, and the input."""
HEADER = struct.Struct("<QQ")

_MOST_BYTES = 1 << 20
_TIMEOUT_S = 30
_MEMORY_BYTES = 6 << 30
_PACKAGES = [
    "litert",
    "compiler_plugin",
    "dispatch",
    "vendor_reference",
    "litert_npu_tools",
    "xdsl",
]


class Trial:
    """Tries inputs on a target, and keeps inputs that reveal a defect."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._target = target
        self._folder = folder
        self.runs = 0
        with open(folder / CURRENT, "wb+") as file:
            file.truncate(HEADER.size + _MOST_BYTES)
            self._current = mmap.mmap(file.fileno(), 0)

    def run(self, data: bytes) -> None:
        """Tries an input."""
        self.runs += 1
        data = bytes(data[:_MOST_BYTES])
        HEADER.pack_into(self._current, 0, self.runs, len(data))
        self._current[HEADER.size : HEADER.size + len(data)] = data
        try:
            with suppress(LiteRtError):
                self._target.run(data)
        except Exception as error:
            self._keep(data, error)

    def _keep(self, data: bytes, error: Exception) -> None:
        """Keeps one input for each type of error and line of code."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} {os.path.basename(frame.filename)}:{frame.lineno}"
        kept = (
            self._folder
            / f"{type(error).__name__}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        )
        if not kept.exists():
            kept.write_bytes(data)
            text = "".join(traceback.format_exception(error))
            kept.with_suffix(".txt").write_text(text)


def _try_by_chance(target: Target, name: str, trial: Trial, given: argparse.Namespace) -> None:
    """Tries all seeds, then randomly damaged inputs, which depend only on the seed of the random numbers."""
    end = time.monotonic() + given.seconds if given.seconds else float("inf")
    random, pool = Random(given.seed), [*target.inputs(name)]
    for data in pool:
        _try_in_time(trial, data)
    while trial.runs < given.runs and time.monotonic() < end:
        _try_in_time(trial, target.damage(random.choice(pool), random))


def _try_in_time(trial: Trial, data: bytes) -> None:
    signal.setitimer(signal.ITIMER_REAL, _TIMEOUT_S)  # the signal ends the process
    trial.run(data)
    signal.setitimer(signal.ITIMER_REAL, 0)


def _try_by_coverage(name: str, folder: Path, given: argparse.Namespace) -> None:
    """Lets Atheris choose inputs that reach new code; later calls continue with the inputs that it has found."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    with atheris.instrument_imports(include=_PACKAGES):
        target = load_target(name)
    trial = Trial(target, folder)

    def damage(data: bytes, max_size: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            changed: bytes = atheris.Mutate(data, max_size)
            return changed
        return target.damage(data, random)[:max_size]

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for data in target.inputs(name):
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
    limits = [
        f"-timeout={_TIMEOUT_S}",
        f"-rss_limit_mb={_MEMORY_BYTES >> 20}",
        f"-max_len={_MOST_BYTES}",
    ]
    ends = [f"-max_total_time={given.seconds:.0f}", f"-runs={given.runs}", f"-seed={given.seed}"]
    arguments = [
        *limits,
        *ends,
        "-verbosity=0",
        f"-artifact_prefix={folder}/libfuzzer-",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *arguments], trial.run, custom_mutator=damage)
    atheris.Fuzz()


def main() -> None:
    """Tries the target that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--runs", type=int, default=2**31)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--by_coverage", action="store_true")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    if given.by_coverage:
        _try_by_coverage(given.target, given.folder, given)
        return
    faulthandler.enable()
    target = load_target(given.target)
    _try_by_chance(target, given.target, Trial(target, given.folder), given)


if __name__ == "__main__":
    main()
