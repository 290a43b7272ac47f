"""Files that appear when they are complete, written beside their place, then renamed; and folders for output.

A cache folder is kept below a size: the least recently used files go. Files of any other name stay.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from litert.core.errors import LiteRtError, file_error
from litert.core.status import Status

_numbers = itertools.count()

_OPEN_FILES = "/proc/self/fd"
_LEFT_OVER_AGE_S = 24 * 3600


def check_place(path: str) -> None:
    """Refuses a file or folder to write whose own folder is not there: it is more likely mistyped than meant.

    Raises:
      LiteRtError: NOT_FOUND.
    """
    folder = os.path.dirname(path.rstrip(os.sep)) or (
        os.sep if path.startswith(os.sep) else os.curdir
    )
    if not os.path.isdir(folder):
        raise LiteRtError(
            Status.NOT_FOUND, "no folder for the output", folder, "Make it, or write elsewhere."
        )


def make_folder(path: str) -> None:
    """Makes a folder, unless it is there, in one that is.

    Raises:
      LiteRtError: NOT_FOUND, where that is not; FILE_IO.
    """
    check_place(path)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise file_error(error, "cannot make the folder", path) from error


@contextmanager
def open_atomic(path: str) -> Iterator[int]:
    """Opens a new file for writing; it takes its place when all went well, with the permissions of what was there.

    What was there stays until then; after an error nothing is left.

    Yields:
      The open file's descriptor.

    Raises:
      LiteRtError: FILE_IO, also for an OSError of the caller's; INVALID_ARGUMENT for a path that is no place for
        a file; NOT_FOUND, where its folder is not there.
    """
    check_place(path)
    try:
        target = os.path.realpath(path)  # a link stays, as with any program that opens it
        mode = _mode(target, path)
        beside, fd = _create_unnamed(target) or _create_beside(target)
    except OSError as error:
        raise _failed(error, path) from error
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode)
            yield fd
            beside = beside or _name_beside(target, fd)
        finally:
            os.close(fd)
        os.replace(beside, target)
    except BaseException as error:
        if beside:
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


def _create_unnamed(target: str) -> tuple[str, int] | None:
    """A file without a name, which goes with its process; None where the system has no such files."""
    if not os.path.exists(_OPEN_FILES):
        return None
    with suppress(OSError):  # any other is one of the file beside, too
        flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
        return "", os.open(os.path.dirname(target), flags, 0o666)
    return None


def _name_beside(target: str, fd: int) -> str:
    """Gives a file without a name one."""
    while True:
        beside = _next_beside(target)
        with suppress(FileExistsError):
            # A folder that the path does not need has Python follow the link.
            os.link(f"{_OPEN_FILES}/{fd}", beside, src_dir_fd=fd, follow_symlinks=True)
            return beside


def _create_beside(target: str) -> tuple[str, int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        beside = _next_beside(target)
        with suppress(FileExistsError):
            return beside, os.open(beside, flags, 0o666)


def _next_beside(target: str) -> str:
    """A name that only a process that was killed may have left."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:200]}.{os.getpid()}.{next(_numbers)}.tmp")


def _failed(error: OSError, path: str) -> LiteRtError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return file_error(error, "cannot write", path, "Make room, or write elsewhere." if full else "")


def trim_folder(folder: str, names: re.Pattern[str], limit_bytes: int, newest: str = "") -> None:
    """Removes files with such names until the rest fits, other than the newest; where that fails, they stay.

    Other processes may use the folder. Files that `open_atomic` left behind when its process was killed go after
    a day.
    """
    left_over = re.compile(rf"\.(?:{names.pattern})\..*\.tmp")
    oldest = time.time() - _LEFT_OVER_AGE_S
    files = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process was faster, or another user's file
                if not entry.is_file(follow_symlinks=False):
                    continue
                stat = entry.stat(follow_symlinks=False)
                if names.fullmatch(entry.name):
                    files.append((stat.st_mtime_ns, stat.st_size, entry.path))
                elif left_over.fullmatch(entry.name) and stat.st_mtime < oldest:
                    os.unlink(entry.path)
    excess = sum(size for _, size, _ in files) - limit_bytes
    for _, size, path in sorted(files):
        if excess <= 0:
            return
        if path == newest:
            continue
        try:
            os.unlink(path)
        except FileNotFoundError:  # another process was faster
            pass
        except OSError:  # another user's: it stays, and the next goes in its place
            continue
        excess -= size
