"""A file that appears when it is complete: written beside its place, then renamed."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from litert.core.errors import LiteRtError
from litert.core.status import Status

_numbers = itertools.count()


@contextmanager
def open_atomic(path: str) -> Iterator[int]:
    """Opens a new file for writing; it takes its place when all went well, with the permissions of what was there.

    What was there stays until then; after an error nothing is left.

    Yields:
      The open file's descriptor.

    Raises:
      LiteRtError: FILE_IO, also for an OSError of the caller's; INVALID_ARGUMENT for a path that is no place for
        a file.
    """
    try:
        target = os.path.realpath(path)  # a link stays, as with any program that opens it
        mode = _mode(target, path)
        beside, fd = _create_beside(target)
    except OSError as error:
        raise _failed(error, path) from error
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode)
            yield fd
        finally:
            os.close(fd)
        os.replace(beside, target)
    except BaseException as error:
        os.unlink(beside)
        if isinstance(error, OSError):
            raise _failed(error, path) from error
        raise


def _mode(target: str, path: str) -> int | None:
    """The permissions to keep; None for a new file's."""
    try:
        found = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode):
        return stat.S_IMODE(found.st_mode)
    what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
    raise LiteRtError(
        Status.INVALID_ARGUMENT, f"the output is {what}", path, "Name a file to write."
    )


def _create_beside(target: str) -> tuple[str, int]:
    folder, name = os.path.split(target)
    while True:
        beside = os.path.join(folder, f".{name[:200]}.{os.getpid()}.{next(_numbers)}.tmp")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return beside, os.open(beside, flags, 0o666)
        except FileExistsError:  # of a process that was killed
            continue


def _failed(error: OSError, path: str) -> LiteRtError:
    reason = (error.strerror or str(error)).lower()
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return LiteRtError(
        Status.FILE_IO,
        f"cannot write: {reason}",
        path,
        "Make room, or write elsewhere." if full else "",
    )
