"""Reads and writes cache entries: files that only this user may write, each with a seal that covers its name.

The cache directory is kept below a size limit by removing the least recently used entries. Other files in the
directory are not removed.

The name of an entry is a digest of all data on which the entry depends. The seal at the end of an entry covers the
entry's purpose, name and bytes. A renamed entry is therefore refused like a damaged entry. If other users can
write to the cache directory, entries are sealed with the user's key; if the user has no key, no entries are
stored.
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
    """Returns the content of a cache entry.

    Raises:
      OSError: The entry does not exist, or may have been written by other users; or other users can write to the
        directory and this user has no key.
      LiteRtError: SERIALIZATION, if the cache entry is damaged, or has the seal of another entry.
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
            Status.SERIALIZATION,
            "the cache entry is damaged, or was stored under another name",
            path,
        )
    return data[:end]


def write_entry(path: str, purpose: str, *parts: bytes) -> None:
    """Writes a cache entry that only this user can read.

    Raises:
      OSError: Other users can write to the directory, and this user has no key.
      LiteRtError: The same errors as in `open_atomic`.
    """
    # Imported here, because reading an entry needs neither module
    from litert.model.atomic_file import open_atomic
    from litert.model.output import write_at

    data = b"".join(parts)
    sealed = data + _seal(path, purpose, data)
    with open_atomic(path, 0o600) as fd:
        write_at(fd, sealed, 0)


def trim_folder(folder: str, names: re.Pattern[str], limit_bytes: int, newest: str = "") -> None:
    """Removes the least recently used entries whose names match, until the rest is within the limit.

    The entry with the path `newest` is kept.

    An entry that cannot be removed stays in the cache.

    Other processes may use the directory at the same time. Temporary files of killed processes are removed, too.
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
