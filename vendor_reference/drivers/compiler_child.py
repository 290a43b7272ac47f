"""Calls a function that compiles kernels in a child process: compilers crash, hang, and take all memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

from litert.host.child import call_in_child


def call_compiler(target: str, argument: object, *, timeout_s: float) -> Iterator[object]:
    """Calls a generator function as `call_in_child` does, with at most half of the machine's memory."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return call_in_child(
        target,
        argument,
        timeout_s=timeout_s,
        subject="the OpenCL compiler",
        memory_bytes=memory_bytes,
    )
