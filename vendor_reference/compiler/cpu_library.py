"""Calls of a library of CPU layers while a model is compiled: in a child process, where it may crash or hang."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.child import call_in_child
from vendor_reference.custom_layers.custom_layer import CustomLayer

ASK_TIMEOUT_S = 60.0
"""For all that a library is asked; a good one needs milliseconds."""

_CHILD = "vendor_reference.cpu_layer.worker"
_HINT = "Its functions are called while a model is compiled, see litert_npu/cpu_layer.h."


def check_allowed(layer: CustomLayer, allow_native_assets: bool) -> None:
    """Refuses machine code that may not run.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    if not allow_native_assets:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            "a shared object is machine code, which may not run here",
            f"{layer.file_name}, op '{layer.op_name}'",
            "If you trust it, allow it with --allow_native_assets, here and where the model runs.",
        )


def ask_library(
    layer: CustomLayer, function: str, request: Mapping[str, object]
) -> Iterator[JsonNode]:
    """Calls a function of `vendor_reference.cpu_layer.worker`.

    Args:
      layer: whose library is asked.
      function: its name.
      request: what it gets, besides the library.

    Yields:
      What it yields.

    Raises:
      LiteRtError: what it raises; RUNTIME_FAILURE or TIMEOUT_EXPIRED, where the library crashes or hangs.
    """
    (library,) = layer.sources
    child = f"{_CHILD}:{function}"
    with tempfile.NamedTemporaryFile(prefix="litert-npu-", suffix=".so") as file:
        file.write(library.data)
        file.flush()
        asked = {
            "path": file.name,
            "sha256": library.digest,
            "file_name": layer.file_name,
            "op_name": layer.op_name,
            **request,
        }
        subject = f"the library of CPU layers in {layer.file_name}"
        try:
            for answer in call_in_child(child, asked, timeout_s=ASK_TIMEOUT_S, subject=subject):
                yield JsonNode(answer, "$", child, Status.RUNTIME_FAILURE)
        except LiteRtError as error:
            if error.where != child:
                raise
            where = f"{layer.file_name}, op '{layer.op_name}'"
            raise LiteRtError(error.status, error.what, where, _HINT) from error
