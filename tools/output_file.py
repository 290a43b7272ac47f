"""An output that replaces no input, and appears when it is complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import BinaryIO

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.atomic_file import open_atomic


def write_file(path: str, write: Callable[[BinaryIO], object], sources: Iterable[str] = ()) -> None:
    """Writes a file by a function; what was there stays until the file is complete.

    Args:
      path: of the file.
      write: given the open file.
      sources: that the output must not replace.

    Raises:
      LiteRtError: FILE_IO; INVALID_ARGUMENT, where the output is a source, or no file.
    """
    target = os.path.realpath(path)
    for source in sources:
        if os.path.realpath(source) == target:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, "the output is the input", path, "Write to another file."
            )
    with open_atomic(path) as fd:
        try:
            with open(fd, "wb", closefd=False) as file:
                write(file)
        except OSError as error:
            if error.errno is None:  # NumPy's own, of a disk that is full
                raise OSError(errno.ENOSPC, f"no space left, it seems: {error}") from error
            raise
