"""The parent's side: each target in a process of its own, which an input may end."""

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
"""For the start of a process, and its last input."""


@dataclass(frozen=True)
class Outcome:
    """What came of a target.

    Attributes:
      runs: how many inputs were tried.
      findings: files with inputs that show a defect.
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
    """Tries a target; an input that ends the process is kept, and the rest goes on in another.

    Args:
      name: of the target.
      folder: for findings and, where Atheris chooses inputs, those that it has found.
      runs: how many inputs there are at most; 0 for any number.
      seconds: how long it takes at most; 0 for any time.
      seed: of the generator of random numbers.
      by_coverage: whether Atheris chooses inputs.
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
    """The exit status, and the end of what the child has printed."""
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
