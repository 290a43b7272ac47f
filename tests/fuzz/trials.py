"""The parent process of the fuzzer: starts a child process for each target, because an input may crash it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.trial import CURRENT, HEADER

ROOT = Path(__file__).resolve().parents[2]
_MOST_ENDS = 5
_GRACE_S = 90.0
"""Additional seconds for the start of a child process and its last input."""


@dataclass(frozen=True)
class Outcome:
    """The result of fuzzing a target.

    Attributes:
      runs: Number of inputs that were tried.
      findings: Files with inputs that reveal a defect, and files with the error messages.
    """

    target: str
    runs: int
    findings: Sequence[Path]


def try_target(
    name: str,
    folder: Path,
    *,
    runs: int = 0,
    seconds: float = 0,
    seed: int = 1,
    by_coverage: bool = False,
) -> Outcome:
    """Tries inputs on a target; keeps an input that ends the process, and continues in another process.

    Args:
      name: Name of the target.
      folder: Folder for findings and for the inputs that Atheris has found.
      runs: Maximum number of inputs; 0 for any number.
      seconds: Time limit; 0 for no limit.
      seed: Seed of the random numbers.
      by_coverage: Whether Atheris chooses the inputs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in _findings(folder):
        old.unlink()
    done, ends = 0, 0
    end = time.monotonic() + seconds
    while ends < _MOST_ENDS and not (runs and done >= runs):
        left = end - time.monotonic() if seconds else 0
        if seconds and left < 1:
            break
        limits = [f"--seed={seed + ends}"]
        limits += [f"--runs={runs - done}"] if runs else []
        limits += [f"--seconds={left}"] if seconds else []
        limits += ["--by_coverage"] if by_coverage else []
        status, said = _run_child(name, folder, limits, left + _GRACE_S if seconds else None)
        current = (folder / CURRENT).read_bytes() if (folder / CURRENT).exists() else b""
        tried, size = HEADER.unpack_from(current) if current else (0, 0)
        done += tried
        if not status:
            break
        ends += 1
        kept = folder / f"{_ending(status)}-{ends}"
        kept.write_bytes(current[HEADER.size : HEADER.size + size])
        kept.with_suffix(".txt").write_text(said)
    (folder / CURRENT).unlink(missing_ok=True)
    return Outcome(name, done, _findings(folder))


def _findings(folder: Path) -> Sequence[Path]:
    texts = sorted(folder.glob("*.txt"))
    return [path for text in texts for path in (text.with_suffix(""), text) if path.exists()]


def _ending(status: int) -> str:
    if status == -signal.SIGALRM or status == _LIBFUZZER_TIMEOUT:
        return "hang"
    return signal.Signals(-status).name if status < 0 else f"exit{status}"


_LIBFUZZER_TIMEOUT = 70


def _run_child(
    name: str, folder: Path, limits: Sequence[str], timeout_s: float | None
) -> tuple[int, str]:
    """Runs a child process; returns its exit status and the end of its output."""
    temporary = tempfile.mkdtemp(prefix="litert-npu-fuzz-")
    command = [sys.executable, "-m", "tests.fuzz.trial", name, str(folder), *limits]
    environment = {**os.environ, "TMPDIR": temporary, "PYTHONHASHSEED": "0"}
    try:
        with open(Path(temporary) / "said", "wb+") as said:
            child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said)
            try:
                status = child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                status = -signal.SIGALRM
            finally:
                child.kill()
                child.wait()
            text = (Path(temporary) / "said").read_bytes()[-20_000:]
        return status, text.decode(errors="replace")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
