"""Calls a function that compiles kernels in a child process: compilers crash, hang, and take all memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.child import call_in_child
from vendor_reference.drivers.device_choice import NOT_THE_KERNEL
from vendor_reference.drivers.proof import prove_library


def call_compiler(
    target: str, argument: object, *, timeout_s: float, library: str
) -> Iterator[object]:
    """Calls a generator function as `call_in_child` does, with at most half of the machine's memory.

    Args:
      target: as there.
      argument: as there.
      timeout_s: as there.
      library: of the driver that compiles.

    Raises:
      LiteRtError: as there; COMPILATION, if the driver fails whatever it is to compile.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    try:
        yield from call_in_child(
            target,
            argument,
            timeout_s=timeout_s,
            subject="the OpenCL compiler",
            memory_bytes=memory_bytes,
        )
    except LiteRtError as error:
        if error.status not in (Status.RUNTIME_FAILURE, Status.TIMEOUT_EXPIRED):
            raise
        problem = prove_library(library).problem
        if not problem:
            raise  # the kernel does that to it
        what = f"the OpenCL driver does not work: {problem}"
        raise LiteRtError(Status.COMPILATION, what, library, NOT_THE_KERNEL) from error
