"""An output that appears when it is complete: written beside its target, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from typing import BinaryIO

from litert.core.errors import LiteRtError
from litert.core.status import Status


def write_file(path: str, write: Callable[[BinaryIO], object], sources: Iterable[str] = ()) -> None:
    """Writes a file by a function; what was there stays until the file is complete.

    Args:
      path: of the file.
      write: given the open file.
      sources: that the output must not replace.

    Raises:
      LiteRtError: FILE_IO; INVALID_ARGUMENT, where the output is a source or a folder.
    """
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise LiteRtError(Status.INVALID_ARGUMENT, "the output is a folder", path, "Name a file.")
    for source in sources:
        if os.path.realpath(source) == target:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, "the output is the input", path, "Write to another file."
            )
    beside = ""
    try:
        fd, beside = tempfile.mkstemp(".tmp", ".", os.path.dirname(target))
        with open(fd, "wb") as file:
            os.fchmod(fd, _mode(target))
            write(file)
        os.replace(beside, target)
    except BaseException as error:
        if beside:
            os.unlink(beside)
        if isinstance(error, OSError):
            # NumPy's own error has no reason; a disk that is full is what it means.
            reason = (error.strerror or f"no space left, it seems: {error}").lower()
            raise LiteRtError(Status.FILE_IO, f"cannot write: {reason}", path) from error
        raise


def _mode(target: str) -> int:
    """The permissions of the file that is replaced, or of a new one."""
    try:
        return os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
