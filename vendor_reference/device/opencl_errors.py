"""What OpenCL says of a failure becomes a `LiteRtError`."""

from __future__ import annotations

import re

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.status import Status

_OUT_OF_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_RESOURCES,
    cl.status_code.OUT_OF_HOST_MEMORY,
    cl.status_code.INVALID_BUFFER_SIZE,
)
_BUILD_HINT = "Correct the kernel, and compile the model again."
_NO_LOG_HINT = "The compiler gives no reason; a full disk is one."
_NOT_OF_THE_LOG = re.compile(r"^Device .* failed to build the program$\n?", re.MULTILINE)
_INSIDE_A_MACRO = re.compile(
    r"(?<=\d) <Spelling=[^>\n]*>"
)  # where a header of the driver has its text
_PLACE = re.compile(r"^(?:error: )?(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): ", re.MULTILINE)


def opencl_error(error: cl.Error, where: str, hint: str = "") -> LiteRtError:
    """An error of a call: a run, an allocation."""
    status = Status.RUNTIME_FAILURE
    if error.code in _OUT_OF_MEMORY:
        status = Status.MEMORY_ALLOCATION_FAILURE
    return LiteRtError(status, str(error), where, hint)


def build_error(name: str, log: str, error: cl.Error) -> LiteRtError:
    """An error of a build.

    Args:
      name: of the program.
      log: the compiler's.
      error: what the call raised.
    """
    log = _INSIDE_A_MACRO.sub("", _NOT_OF_THE_LOG.sub("", log)).strip()
    hint = _BUILD_HINT if log else _NO_LOG_HINT
    log = log or str(error)
    place = _PLACE.search(log)
    where = f"{place['file']}, line {place['line']}" if place else name
    return LiteRtError(Status.COMPILATION, f"the kernel does not build:\n{log}\n", where, hint)
