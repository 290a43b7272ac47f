"""Reads and writes Null's byte code: a magic number, then one line with the name of each function."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status

_MAGIC = b"NULL1\n"


def write_byte_code(functions: Sequence[str]) -> bytes:
    """Returns a byte code module with these functions."""
    return _MAGIC + "\n".join(functions).encode()


def read_byte_code(data: memoryview) -> Sequence[str]:
    """Returns the names of the functions in a module.

    Raises:
      LiteRtError: INCOMPATIBLE_BYTE_CODE_VERSION, for bytes that Null's compiler did not write.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise LiteRtError(
            Status.INCOMPATIBLE_BYTE_CODE_VERSION,
            f"the byte code starts with {bytes(data[:6])!r}, not with {_MAGIC!r}",
            hint="Compile the model again.",
        )
    return str(data[len(_MAGIC) :], "utf-8", "replace").split("\n")
