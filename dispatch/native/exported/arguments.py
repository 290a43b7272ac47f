"""Arguments that a host in C gives: what must not be NULL, and texts."""

from __future__ import annotations

from typing import Any

from litert.abi.definitions import ffi
from litert.core.errors import LiteRtError
from litert.core.status import Status


def need(pointer: Any) -> Any:
    """A pointer that has to be given.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for NULL.
    """
    if not pointer:
        raise LiteRtError(Status.INVALID_ARGUMENT, "an argument is a NULL pointer")
    return pointer


def read_text(pointer: Any, what: str) -> str:
    """A C string.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for NULL.
    """
    if not pointer:
        raise LiteRtError(Status.INVALID_ARGUMENT, f"the {what} is NULL")
    return str(ffi.string(pointer), "utf-8", "surrogateescape")
