"""The user's secret key, which seals data; a valid seal proves that this user made the data.

The key consists of 32 random bytes, and is stored in `litert-npu/key` below the user's data directory or below
`LITERT_NPU_DATA_DIR`. The key's file (mode 0600) and its directory (mode 0700) are created at the first use.
Symbolic links, other users' files, and files that other users can read or write are refused. Each seal depends on
its purpose, so that a seal made for another purpose is invalid.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from litert.host.user_folder import user_folder

_NAME = "litert-npu"
_FILE = "key"
_SIZE = 32


def seal(purpose: str, *parts: bytes | memoryview) -> bytes:
    """Seals bytes for a purpose with the user's key, and returns the seal, which has 32 bytes.

    Creates the key if the user has none.

    Raises:
      OSError: The key cannot be stored, or other users have access to the key.
    """
    import hmac  # imported here, because it loads OpenSSL

    sealed = hmac.new(user_key(), digestmod="sha256")
    for part in framed(purpose.encode(), *parts):
        sealed.update(part)
    return sealed.digest()


def framed(*parts: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """Joins parts together with their sizes, so that different lists of parts never give the same bytes."""
    for part in parts:
        yield memoryview(part).nbytes.to_bytes(8, "little")
        yield part


def user_key() -> bytes:
    """Returns the user's key, and creates the key if the user has none.

    Raises:
      OSError: The key cannot be stored, or other users have access to the key.
    """
    folder = os.path.join(user_folder("data", "LITERT_NPU_DATA_DIR"), _NAME)
    with suppress(FileNotFoundError):
        return _read(folder)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    _make(folder)
    return _read(folder)  # another process may have been faster


def _read(folder: str) -> bytes:
    _check_own(os.lstat(folder), stat.S_ISDIR, folder)
    path = os.path.join(folder, _FILE)
    # Opens without blocking, in case the path is a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_own(os.fstat(fd), stat.S_ISREG, path)
        key = os.read(fd, _SIZE + 1)
    finally:
        os.close(fd)
    if len(key) != _SIZE:
        raise OSError(errno.EINVAL, f"the key must have {_SIZE} bytes; remove the file", path)
    return key


def _make(folder: str) -> None:
    """Writes a new key under a temporary name, then links it to its place unless a key exists."""
    _check_own(os.lstat(folder), stat.S_ISDIR, folder)
    beside = os.path.join(folder, f".{_FILE}.{os.urandom(8).hex()}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, os.urandom(_SIZE))
        os.fsync(fd)
        with suppress(FileExistsError):
            os.link(beside, os.path.join(folder, _FILE))
    finally:
        os.close(fd)
        os.unlink(beside)


def _check_own(found: os.stat_result, is_kind: Callable[[int], bool], path: str) -> None:
    if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(
            errno.EPERM, "the file is a link, or other users have access to it", path
        )
