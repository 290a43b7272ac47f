"""The user's own secret: what was sealed with it was made by this user, wherever the file has been since.

The key is 32 random bytes in `litert-npu/key` below the user's data folder, or below `LITERT_NPU_DATA_DIR`: a file
of mode 0600 in a folder of mode 0700, made when it is first asked for. A link, another user's file, and one that
others can read or write are not used. Each seal names its purpose, so that one for another purpose is none.
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
    """32 bytes that only who has the user's key can make, of a purpose and of bytes; the key is made if need be.

    Raises:
      OSError: there is no place for a key, or what is there is not the user's alone.
    """
    import hmac  # here, since it loads OpenSSL

    sealed = hmac.new(user_key(), digestmod="sha256")
    for part in framed(purpose.encode(), *parts):
        sealed.update(part)
    return sealed.digest()


def framed(*parts: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """Parts with the size of each before it, so that no others have the same bytes."""
    for part in parts:
        yield memoryview(part).nbytes.to_bytes(8, "little")
        yield part


def user_key() -> bytes:
    """The key, which is made if there is none.

    Raises:
      OSError: as `seal`.
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
    # Without waiting for whoever writes, where it is a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_own(os.fstat(fd), stat.S_ISREG, path)
        key = os.read(fd, _SIZE + 1)
    finally:
        os.close(fd)
    if len(key) != _SIZE:
        raise OSError(errno.EINVAL, f"{len(key)} bytes are no key; remove the file", path)
    return key


def _make(folder: str) -> None:
    """Writes a new key beside its place, and names it there unless there is one already."""
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
        raise PermissionError(errno.EPERM, "not this user's alone, or a link", path)
