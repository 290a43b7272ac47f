"""A command's work in a process of its own: a kernel that crashes or hangs only produces an error message.

The child's part is a generator function. It yields `stage(...)` before what may go wrong, and in the end one
`answer(...)`; what the device prints comes to the standard error at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.child import call_in_child

from ..console import json_text, print_text

_HINTS = {
    Status.RUNTIME_FAILURE: "If the kernel reads or writes past its tensors, litert-npu layer check FILE "
    "--sanitize finds where.",
    Status.TIMEOUT_EXPIRED: "The kernel may have an endless loop; if it only needs longer, give it more time with "
    "--timeout_s.",
}
_COMPILER_HINT = (
    "OpenCL compilers crash or hang on some kernels: simplify it, or use another driver (LITERT_NPU_OPENCL); "
    "if it only needs longer, give it more time with --timeout_s."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the child found: what the exit status says, a text for people, and values for machines."""

    passed: bool
    text: str
    values: Any

    def show(self, report: str) -> int:
        """Prints it as `text` or `json`; gives the exit status."""
        print_text(json_text(self.values) if report == "json" else self.text, sys.stdout)
        return 0 if self.passed else 1


def stage(what: str, crash_cause: str = "") -> dict[str, object]:
    """Says what comes next, should it be the last that is heard: `kernel 'X' was running`.

    `crash_cause` is a sentence about what is known to crash there.
    """
    return {"stage": what, "crash_cause": crash_cause}


def compiling(path: str) -> dict[str, object]:
    """Says that a layer is being compiled."""
    return {"stage": f"{path} was being compiled", "hint": _COMPILER_HINT}


def answer(passed: bool, text: str, values: object) -> dict[str, object]:
    """The end of the child's work."""
    return {"passed": passed, "text": text, "values": values}


def run_safely(target: str, request: Mapping[str, Any]) -> Answer:
    """Runs the child's part.

    Args:
      target: `package.module:function`.
      request: its argument, as `layer_request` makes it; its time limit is for each stage.

    Raises:
      LiteRtError: what the child raised; RUNTIME_FAILURE or TIMEOUT_EXPIRED, with what was going on.
    """
    last: dict[str, Any] = stage("it was starting")
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
        if error.where != target or error.status not in _HINTS:
            raise
        what = f"{error.what}, while {last['stage']}"
        hint = last.get("hint") or _HINTS[error.status]
        if error.status is Status.RUNTIME_FAILURE and last.get("crash_cause"):
            hint = f"{last['crash_cause']} {hint}"
        raise LiteRtError(error.status, what, request["path"], hint) from error
    raise LiteRtError(Status.RUNTIME_FAILURE, "the process gave no answer", request["path"])


def _pass_on(data: bytes) -> None:
    sys.stderr.write(data.decode("utf-8", "replace"))
    sys.stderr.flush()
