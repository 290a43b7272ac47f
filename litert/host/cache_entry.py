"""Entries of a cache: files that only this user may write, each sealed for its name.

The cache directory is kept below a size limit: the least recently used entries are removed. Files
with other names stay.

An entry's name is a digest of everything that the entry depends on. The seal at the end of an entry
covers its purpose, its name and its bytes, so that an entry with another name is refused like a
damaged entry. If other users can write to the cache directory, the seal uses the user's key; a user
without a key stores no entries there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.user_key import framed, seal

_SEAL_SIZE = 32


def is_own(found: os.stat_result) -> bool:
    """Returns whether a file or directory belongs to this user, and only this user can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read_entry(path: str, purpose: str) -> bytes:
    """Returns the content of an entry.

    Raises:
      OSError: There is no such entry, other users may have written it, or other users can write to
        the directory and this user has no key.
      LiteRtError: SERIALIZATION, if the entry is damaged, or has the seal of another entry.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not is_own(found):
            raise PermissionError(errno.EPERM, "other users can write to the file", path)
        data = file.read()
    end = max(len(data) - _SEAL_SIZE, 0)
    if data[end:] != _seal(path, purpose, memoryview(data)[:end]):
        raise LiteRtError(
            Status.SERIALIZATION, "the entry is damaged, or belongs to another name", path
        )
    return data[:end]


def write_entry(path: str, purpose: str, *parts: bytes) -> None:
    """Writes an entry, which only this user can read.

    Raises:
      OSError: Other users can write to the directory, and this user has no key.
      LiteRtError: Same as `open_atomic`.
    """
    # Imported here, because reading an entry needs neither module
    from litert.model.atomic_file import open_atomic
    from litert.model.output import write_at

    data = b"".join(parts)
    sealed = data + _seal(path, purpose, data)
    with open_atomic(path, 0o600) as fd:
        write_at(fd, sealed, 0)


def trim_folder(folder: str, names: re.Pattern[str], limit_bytes: int, newest: str = "") -> None:
    """Removes entries with such names until the rest fits, but keeps the newest entry.

    Errors leave entries in place.

    Other processes may use the directory at the same time. Temporary files that killed processes
    left behind are removed, too.
    """
    from litert.model.atomic_file import remove_left_overs

    remove_left_overs(folder, names.pattern)
    files = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            # Another process was faster, or the file belongs to another user
            with suppress(OSError):
                if names.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    files.append((found.st_mtime_ns, found.st_size, entry.path))
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
        except OSError:  # another user's file stays, and the next file is removed instead
            continue
        excess -= size


def _seal(path: str, purpose: str, data: bytes | memoryview) -> bytes:
    folder, name = os.path.split(path)
    if is_own(os.stat(folder)):
        digest = hashlib.sha256()
        for part in framed(purpose.encode(), name.encode(), data):
            digest.update(part)
        return digest.digest()
    return seal(purpose, name.encode(), data)
