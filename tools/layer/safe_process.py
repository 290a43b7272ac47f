"""Runs a command's work in its own process, so that a kernel's crash or hang causes only an error message.

The child process runs a generator function. The function yields `stage(...)` before each step that may fail, and
`answer(...)` as its last value. Output of the device is printed to standard error immediately.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.host.child import call_in_child

from ..console import json_text, print_text

_HINTS = {
    Status.RUNTIME_FAILURE: "If the kernel reads or writes past its tensors, litert-npu layer "
    "check FILE --sanitize finds the line.",
    Status.TIMEOUT_EXPIRED: "The kernel may have an endless loop. If the kernel only needs more "
    "time, raise --timeout_s.",
}
_COMPILER_HINT = (
    "OpenCL compilers crash or hang on some kernels: simplify the kernel, or choose another OpenCL driver with "
    "the environment variable LITERT_NPU_OPENCL."
)
_COMPILER_HINTS = {
    Status.RUNTIME_FAILURE: _COMPILER_HINT,
    Status.TIMEOUT_EXPIRED: f"{_COMPILER_HINT} If the compiler only needs more time, raise "
    "--timeout_s.",
}
_START_HINTS = {Status.TIMEOUT_EXPIRED: "No kernel has run yet: raise --timeout_s."}


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a child process: success or failure, a text for people, and values for programs."""

    passed: bool
    text: str
    values: Any

    def show(self, report: str) -> int:
        """Prints the result as `text` or `json`; returns the exit status."""
        print_text(json_text(self.values) if report == "json" else self.text, sys.stdout)
        return 0 if self.passed else 1


def stage(what: str, crash_cause: str = "") -> dict[str, object]:
    """Returns a message about the next step, such as `kernel 'X' was running`; it is used if this step fails.

    `crash_cause` is a sentence about a known cause of crashes in this step.
    """
    return {"stage": what, "crash_cause": crash_cause}


def compiling(path: str) -> dict[str, object]:
    """Returns a message which says that the next step compiles a layer."""
    return {"stage": f"{path} was being compiled", "hints": _COMPILER_HINTS}


def answer(passed: bool, text: str, values: object) -> dict[str, object]:
    """Returns the last message of a child process, which contains the result."""
    return {"passed": passed, "text": text, "values": values}


def run_safely(target: str, request: Mapping[str, Any]) -> Answer:
    """Runs a function in a child process.

    Args:
      target: `package.module:function`.
      request: Argument of the function: a result of `layer_request`. The time limit in it applies to each step.

    Raises:
      LiteRtError: The error that the child raised; RUNTIME_FAILURE or TIMEOUT_EXPIRED, with a message about the
        step that was running.
    """
    last: dict[str, Any] = {"stage": "the process was starting", "hints": _START_HINTS}
    try:
        for message in call_in_child(
            target,
            request,
            timeout_s=request["timeout_s"],
            subject="the process",
            hear=_pass_on,
            is_for_each=True,
        ):
            assert isinstance(message, dict)
            if "stage" not in message:
                return Answer(**message)
            last = message
    except LiteRtError as error:
        if not isinstance(error, ChildEndedError) or error.status not in _HINTS:
            raise
        what = f"{error.what} while {last['stage']}"
        hint = last.get("hints", _HINTS).get(error.status, "")
        if error.status is Status.RUNTIME_FAILURE and last.get("crash_cause"):
            hint = f"{last['crash_cause']} {hint}"
        raise LiteRtError(error.status, what, request["path"], hint) from error
    raise LiteRtError(Status.RUNTIME_FAILURE, "the process ended without a result", request["path"])


def _pass_on(data: bytes) -> None:
    sys.stderr.write(data.decode("utf-8", "replace"))
    sys.stderr.flush()
