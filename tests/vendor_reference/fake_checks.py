"""Compilers that behave badly, in place of `device/kernel_check_worker.py`; each runs in a child process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.executables import undeclared
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.kernel_signature import SIGNATURES


def answer(folder: str) -> Iterator[object]:
    """Says of each program what a define in it says."""
    for program in read_executable(Path(folder, "executable").read_bytes()).programs:
        names = json.loads(Path(folder, "assets.json").read_text())
        texts = [Path(folder, names[source.asset]).read_text() for source in program.sources]
        words = [word for text in texts for word in text.split() if word.startswith("kernel_")]
        kernels = SIGNATURES.dump(dict.fromkeys(words, undeclared(2)))
        yield {"kernels": kernels, "log": "a warning" if "warn" in texts[0] else ""}


def crash(folder: str) -> Iterator[object]:
    """Answers for the first program, and crashes on the second."""
    yield next(answer(folder))
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(folder: str) -> Iterator[object]:
    """Never answers."""
    time.sleep(1000)
    yield from answer(folder)


def refuse(folder: str) -> Iterator[object]:
    """Does not build."""
    raise LiteRtError(Status.COMPILATION, "the kernel does not build:\nk.cl:3:1: error: no", "k.cl")
    yield


def babble(folder: str) -> Iterator[object]:
    """Answers something else."""
    yield {"kernels": "all"}
