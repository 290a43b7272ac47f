"""Compiler workers that misbehave, in place of `device/compiler_worker.py`; each runs in a child process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.executables import undeclared
from vendor_reference.programs.program_cache import COMPILED_PROGRAM, CompiledProgram


def answer(request: Mapping[str, Any]) -> Iterator[object]:
    """Answers for each program with the kernels that its text names, and a warning if the text contains "warn"."""
    for _, text, _ in request["programs"]:
        words = [word for word in text.split() if word.startswith("kernel_")]
        kernels = dict.fromkeys(words, undeclared(2))
        log = "a warning" if "warn" in text else ""
        yield COMPILED_PROGRAM.dump(CompiledProgram(kernels, log=log))


def crash(request: Mapping[str, Any]) -> Iterator[object]:
    """Answers for the first program, and crashes for the second one."""
    yield next(answer(request))
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(request: Mapping[str, Any]) -> Iterator[object]:
    """Never answers."""
    time.sleep(1000)
    yield from answer(request)


def refuse(request: Mapping[str, Any]) -> Iterator[object]:
    """Reports that a kernel does not build."""
    raise LiteRtError(Status.COMPILATION, "the kernel does not build:\nk.cl:3:1: error: no", "k.cl")
    yield


def babble(request: Mapping[str, Any]) -> Iterator[object]:
    """Answers with something other than a compiled program."""
    yield {"kernels": "all"}
