"""Writes files atomically: a file has a temporary name in the target's directory until the file is complete.

The module `atomic_file` also makes output directories and temporary directories.
"""

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
    """Refuses an output path whose parent directory does not exist, because the path is probably mistyped.

    Raises:
      LiteRtError: NOT_FOUND, if the parent directory does not exist.
    """
    folder = os.path.dirname(path.rstrip(os.sep)) or (
        os.sep if path.startswith(os.sep) else os.curdir
    )
    if not os.path.isdir(folder):
        what = "the directory of the output does not exist"
        hint = "Make the directory, or give another path for the output."
        if folder == os.curdir:
            what = "the current directory does not exist any more"
            hint = "Change to another directory, or give an absolute path for the output."
        raise LiteRtError(Status.NOT_FOUND, what, folder, hint)


def make_folder(path: str) -> None:
    """Makes a directory unless the directory exists; the parent directory must exist.

    Raises:
      LiteRtError: NOT_FOUND, if the parent directory does not exist; FILE_IO, if the directory cannot be made.
    """
    check_place(path)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        is_file = isinstance(error, FileExistsError)
        hint = "Give the path of a directory, not of a file." if is_file else ""
        raise file_error(error, "cannot make the directory", path, hint) from error


@contextmanager
def open_atomic(path: str, permissions: int | None = None) -> Iterator[int]:
    """Opens a new file for writing.

    When the `with` block succeeds and all bytes are on the disk, the new file replaces the old file. If an error
    occurs, the old file stays unchanged, and no partial file remains. Other users get only those permissions for
    the new file that they have for the old file and for the input files. The function also removes temporary files
    of killed processes.

    Args:
      path: Path of the target file. If the path is a symbolic link that this user made, the link's target is
        written; another user's link is replaced by the file.
      permissions: Permissions of the new file; by default, they depend on the permissions of the input files.

    Yields:
      File descriptor of the open file.

    Raises:
      LiteRtError: FILE_IO, if writing fails or the `with` block raises an OSError; INVALID_ARGUMENT, if the path
        cannot be a file; NOT_FOUND, if the parent directory does not exist.
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
            # With a directory that the path does not need, Python follows the link.
            os.link(f"{_OPEN_FILES}/{fd}", beside, src_dir_fd=fd, follow_symlinks=True)
        # Closing a descriptor may report an error; another descriptor keeps the lock.
        writing, fd = fd, os.dup(fd)
        os.close(writing)
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):  # usually, the file has no name yet
            os.unlink(beside)
        if isinstance(error, OSError):
            raise _failed(error, path) from error
        raise
    finally:
        with suppress(OSError):
            os.close(fd)


def remove_left_overs(folder: str, names: str) -> None:
    """Removes temporary files that killed processes left, if the files' names match a regular expression."""
    left_over = re.compile(rf"\.(?:{names}){_RANDOM_END}")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if left_over.fullmatch(entry.name):
                _remove_left_over(entry.path)


@contextmanager
def folder_beside(path: str) -> Iterator[str]:
    """Makes a temporary directory for a `with` block, in the directory that contains `path`.

    If the process is killed, the next process that makes such a directory for the same path, or writes the file at
    this path, removes the directory.

    Raises:
      OSError: The directory cannot be made.
    """
    from shutil import (
        rmtree,
    )  # here, as most commands make no directory; an interpreter that exits cannot import

    made, fd = _make_folder_beside(path)
    try:
        yield made
    finally:
        _remove_folder(made, rmtree)
        with suppress(OSError):
            os.close(fd)


def remove_folder(path: str) -> None:
    """Removes a directory and its contents, except what the system does not allow; retries failed removals."""
    from shutil import rmtree  # imported here for the same reason as above

    _remove_folder(path, rmtree)


def _remove_folder(path: str, rmtree: Callable[..., None]) -> None:
    for _ in range(2):
        with suppress(OSError):  # some errors inside it are not ignored
            rmtree(path, ignore_errors=True)


def make_temporary_folder() -> str:
    """Makes a directory that is removed when this process ends, or by the next process if this one is killed.

    Raises:
      OSError: The directory cannot be made.
    """
    made, _ = _make_folder_beside(_temporary_path())
    return made


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Makes a temporary directory for a `with` block, in the system's directory for temporary files.

    The next process that makes a temporary directory also removes the directories of killed processes.

    Raises:
      OSError: The directory cannot be made.
    """
    with folder_beside(_temporary_path()) as made:
        yield made


@contextmanager
def temporary_file(name: str) -> Iterator[BinaryIO]:
    """Makes a temporary file for a `with` block, in a temporary directory that contains no other file.

    Raises:
      OSError: The file cannot be made.
    """
    with temporary_folder() as folder, open(os.path.join(folder, name), "x+b") as file:
        yield file


def _temporary_path() -> str:
    """Returns a path at which no file exists; temporary directories are made in the same directory."""
    from tempfile import gettempdir  # imported here, because most commands make no directory

    return os.path.join(gettempdir(), "litert-npu")


def _make_folder_beside(path: str) -> tuple[str, int]:
    """Returns the new directory, and a descriptor that locks it."""
    folder, name = os.path.split(path)
    target = os.path.join(os.path.realpath(folder), name)
    remove_left_overs(os.path.dirname(target), re.escape(name[:200]))
    while True:
        made = _name_beside(target)
        os.mkdir(made, 0o700)
        if (fd := _lock_folder(made)) is not None:
            return made, fd


def _lock_folder(path: str) -> int | None:
    """Locks a new directory; returns None if another process has already removed the directory as a leftover."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        _lock(fd)
        if os.path.isdir(path):
            return fd
        os.close(fd)
    return None


def _follow_own_links(path: str) -> str:
    """Returns the target path: a symbolic link is followed only if this user has made it."""
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
    """Returns the permissions of the old file, which the new file keeps; None if there is no old file."""
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
        Status.INVALID_ARGUMENT, f"the output is {what}", path, "Give the name of a file to write."
    )


def _create(beside: str, permissions: int) -> tuple[int, bool]:
    """Returns a locked new file, and whether the file already has a name.

    A file without a name disappears when its process ends.
    """
    common = os.O_RDWR | os.O_CLOEXEC
    fd = -1
    if os.path.exists(_OPEN_FILES):
        with suppress(OSError):  # another error also occurs for a file with a name
            fd = os.open(os.path.dirname(beside), common | os.O_TMPFILE, permissions)
            _lock(fd)
            return fd, False
    while True:
        fd = os.open(beside, common | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, permissions)
        _lock(fd)
        if os.fstat(fd).st_nlink:
            return fd, True
        os.close(fd)  # another process removed the file as a leftover before it was locked


def _lock(fd: int) -> None:
    with suppress(OSError):  # without locks, leftovers stay
        fcntl.flock(fd, fcntl.LOCK_EX)


def _name_beside(target: str) -> str:
    """Returns a name that other users cannot predict."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:200]}.{os.urandom(8).hex()}.tmp")


def _sync(fd: int) -> None:
    """Waits until the bytes of a file are on the disk, if the file system supports waiting."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise


def _remove_left_over(path: str) -> None:
    """Removes a file that no process writes, or a directory of this user that no process uses."""
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
