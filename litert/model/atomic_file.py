"""Files that appear when they are complete, written beside their place, then renamed; and folders for output."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from litert.core.errors import LiteRtError, file_error
from litert.core.input_file import output_permissions
from litert.core.mapped_files import lost_bytes
from litert.core.status import Status

_OPEN_FILES = "/proc/self/fd"
_RANDOM_END = r"\.[0-9a-f]{16}\.tmp"
_MOST_LINKS = 40
_FOR_ALL = 0o666


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
def open_atomic(path: str, permissions: int | None = None) -> Iterator[int]:
    """Opens a new file for writing; it takes its place when all went well and its bytes are on the disk.

    What was there stays until then; after an error nothing is left. Others may do no more with it than with what
    was there, nor with the files that it was made from. What a process left that was killed goes, too.

    Args:
      path: of the file. A link of this user's stays, and leads to it; another's gives way.
      permissions: of a file that has not its inputs'.

    Yields:
      The open file's descriptor.

    Raises:
      LiteRtError: FILE_IO, also for an OSError of the caller's; INVALID_ARGUMENT for a path that is no place for
        a file; NOT_FOUND, where its folder is not there.
    """
    check_place(path)
    most = output_permissions() if permissions is None else permissions
    try:
        target = _follow_own_links(path)
        mode = _mode(target, path)
    except OSError as error:
        raise _failed(error, path) from error
    folder, name = os.path.split(target)
    remove_left_overs(folder, re.escape(name[:200]))
    beside, fd = _name_beside(target), -1
    try:
        fd, is_named = _create(beside, most)
        if mode is not None:
            os.fchmod(fd, mode & (most | ~_FOR_ALL))
        yield fd
        if lost := lost_bytes():
            raise lost
        _sync(fd)
        if not is_named:
            # A folder that the path does not need has Python follow the link.
            os.link(f"{_OPEN_FILES}/{fd}", beside, src_dir_fd=fd, follow_symlinks=True)
        # A descriptor that is closed may tell of an error, and another one keeps the lock.
        writing, fd = fd, os.dup(fd)
        os.close(writing)
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):  # mostly it has no name yet
            os.unlink(beside)
        if isinstance(error, OSError):
            raise _failed(error, path) from error
        raise
    finally:
        with suppress(OSError):
            os.close(fd)


def remove_left_overs(folder: str, names: str) -> None:
    """Removes what killed processes have left of files with such names, a regular expression."""
    left_over = re.compile(rf"\.(?:{names}){_RANDOM_END}")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if left_over.fullmatch(entry.name):
                _remove_left_over(entry.path)


@contextmanager
def folder_beside(path: str) -> Iterator[str]:
    """Makes a folder for the time of the block, beside a file, or one that stands for such folders.

    What a process left that was killed goes when the next one makes a folder beside the same file, or writes it.

    Raises:
      OSError: where none can be made.
    """
    from shutil import (
        rmtree,
    )  # here: most commands make no folder; an interpreter that ends imports nothing

    made, fd = _make_folder_beside(path)
    try:
        yield made
    finally:
        _remove_folder(made, rmtree)
        with suppress(OSError):
            os.close(fd)


def remove_folder(path: str) -> None:
    """Removes a folder and all in it, as far as the system lets it; what fails once is tried again."""
    from shutil import rmtree  # here: as above

    _remove_folder(path, rmtree)


def _remove_folder(path: str, rmtree: Callable[..., None]) -> None:
    for _ in range(2):
        with suppress(OSError):  # some of what it calls is not ignored
            rmtree(path, ignore_errors=True)


def make_temporary_folder() -> str:
    """Makes a folder for the rest of this process, which removes it; one that is killed leaves it to the next.

    Raises:
      OSError: where none can be made.
    """
    made, _ = _make_folder_beside(_temporary_path())
    return made


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Makes a folder for the time of the block, where temporary files go.

    What a process left that was killed goes with the next one's folder.

    Raises:
      OSError: where none can be made.
    """
    with folder_beside(_temporary_path()) as made:
        yield made


@contextmanager
def temporary_file(name: str) -> Iterator[BinaryIO]:
    """Makes a file for the time of the block, to write and read, alone in a temporary folder.

    Raises:
      OSError: where none can be made.
    """
    with temporary_folder() as folder, open(os.path.join(folder, name), "x+b") as file:
        yield file


def _temporary_path() -> str:
    """A file that is not there, for folders beside it."""
    from tempfile import gettempdir  # here: most commands make no folder

    return os.path.join(gettempdir(), "litert-npu")


def _make_folder_beside(path: str) -> tuple[str, int]:
    """The folder, and a descriptor that locks it."""
    folder, name = os.path.split(path)
    target = os.path.join(os.path.realpath(folder), name)
    remove_left_overs(os.path.dirname(target), re.escape(name[:200]))
    while True:
        made = _name_beside(target)
        os.mkdir(made, 0o700)
        if (fd := _lock_folder(made)) is not None:
            return made, fd


def _lock_folder(path: str) -> int | None:
    """Locks a new folder; None where another process took it for a leftover before."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        _lock(fd)
        if os.path.isdir(path):
            return fd
        os.close(fd)
    return None


def _follow_own_links(path: str) -> str:
    """Where a file is to be: a link leads there only if this user has made it."""
    target = path
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(target)
        target = os.path.join(os.path.realpath(folder), name)
        try:
            found = os.lstat(target)
        except FileNotFoundError:
            return target
        if not stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
            return target
        target = os.path.join(os.path.dirname(target), os.readlink(target))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _mode(target: str, path: str) -> int | None:
    """The permissions to keep; None for a new file's."""
    try:
        found = os.lstat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return None
    if stat.S_ISREG(found.st_mode):
        return stat.S_IMODE(found.st_mode)
    what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
    raise LiteRtError(
        Status.INVALID_ARGUMENT, f"the output is {what}", path, "Name a file to write."
    )


def _create(beside: str, permissions: int) -> tuple[int, bool]:
    """A locked file, and whether it has its name; one without a name goes with its process."""
    common = os.O_RDWR | os.O_CLOEXEC
    fd = -1
    if os.path.exists(_OPEN_FILES):
        with suppress(OSError):  # any other is one of the file with a name, too
            fd = os.open(os.path.dirname(beside), common | os.O_TMPFILE, permissions)
            _lock(fd)
            return fd, False
    while True:
        fd = os.open(beside, common | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, permissions)
        _lock(fd)
        if os.fstat(fd).st_nlink:
            return fd, True
        os.close(fd)  # another process took it for a leftover before it was locked


def _lock(fd: int) -> None:
    with suppress(OSError):  # where there are no locks, nothing is swept
        fcntl.flock(fd, fcntl.LOCK_EX)


def _name_beside(target: str) -> str:
    """A name that nobody can foretell."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:200]}.{os.urandom(8).hex()}.tmp")


def _sync(fd: int) -> None:
    """Waits until a file is on its disk, where its file system can tell."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise


def _remove_left_over(path: str) -> None:
    """Removes a file that nobody writes, or a folder of this user's that nobody uses."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISREG(found.st_mode):
                os.unlink(path)
            elif stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                remove_folder(path)
        finally:
            os.close(fd)


def _failed(error: OSError, path: str) -> LiteRtError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return file_error(error, "cannot write", path, "Make room, or write elsewhere." if full else "")
