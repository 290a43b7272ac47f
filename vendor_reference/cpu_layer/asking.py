"""Calls libraries of CPU layers in a child process, so that a crash or hang of a library does no harm."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from litert.core.checked_json import JsonNode
from litert.core.errors import ChildEndedError, ChildStartError, LiteRtError
from litert.core.status import Status
from litert.host.child import call_in_child
from litert.model.atomic_file import temporary_file

ASK_TIMEOUT_S = 60.0
"""Time limit for all calls to a library, in seconds; a library without faults needs only milliseconds."""

_CHILD = "vendor_reference.cpu_layer.library_worker"
_HINT = (
    "Correct the library's functions, which the compiler calls: they must not crash or hang. The header "
    "litert_npu/cpu_layer.h describes them."
)


def check_allowed(allow_native_assets: bool, where: str) -> None:
    """Raises an error if machine code is not allowed to run."""
    if not allow_native_assets:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            "the library is machine code, which may run only with --allow_native_assets",
            where,
            "If you trust the library, set --allow_native_assets, both for this command and when you run the "
            "compiled model. In Python, the option is Options(allow_native_assets=True).",
        )


def ask(
    function: str,
    data: bytes | memoryview,
    file_name: str,
    where: str,
    request: Mapping[str, object],
) -> Iterator[JsonNode]:
    """Calls a function of `library_worker` for the library whose bytes are `data`; yields the function's results.

    `where` is the location that messages contain for errors outside the library.

    Raises:
      LiteRtError: The error of the called function; RUNTIME_FAILURE or TIMEOUT_EXPIRED, if the library crashes or
        hangs.
    """
    child = f"{_CHILD}:{function}"
    with temporary_file("library.so") as file:
        file.write(data)
        file.flush()
        asked = {
            "path": file.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "file_name": file_name,
            **request,
        }
        subject = f"the library of CPU layers {file_name}"
        try:
            for answer in call_in_child(child, asked, timeout_s=ASK_TIMEOUT_S, subject=subject):
                yield JsonNode(answer, "$", child, Status.RUNTIME_FAILURE)
        except LiteRtError as error:
            if error.where != child and not isinstance(error, ChildEndedError | ChildStartError):
                raise
            hint = error.hint if isinstance(error, ChildStartError) else _HINT
            raise LiteRtError(error.status, error.what, where, hint) from error
