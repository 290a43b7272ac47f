"""Entries of a cache: files that this user alone has written, each sealed for the name that it is found under.

The folder is kept below a size: the least recently used entries go. Files of any other name stay.

A name is a digest of all that an entry depends on. The seal at the entry's end is over its purpose, its name and
its bytes, so that an entry of another name is refused, like a damaged one. In a folder that others can write to it
is made with the user's key; who has none keeps nothing there.
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
    """Whether a file or folder is this user's, and nobody else can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read_entry(path: str, purpose: str) -> bytes:
    """What an entry holds.

    Raises:
      OSError: there is none, or others may have written it, or have the folder where this user has no key.
      LiteRtError: SERIALIZATION, if it is damaged, or was another's.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not is_own(found):
            raise PermissionError(errno.EPERM, "others can write to the file", path)
        data = file.read()
    end = max(len(data) - _SEAL_SIZE, 0)
    if data[end:] != _seal(path, purpose, memoryview(data)[:end]):
        raise LiteRtError(Status.SERIALIZATION, "the entry is damaged, or not of its name", path)
    return data[:end]


def write_entry(path: str, purpose: str, *parts: bytes) -> None:
    """Writes an entry, which nobody else can read.

    Raises:
      OSError: others have the folder, and this user has no key.
      LiteRtError: as `open_atomic`.
    """
    from litert.model.atomic_file import open_atomic  # what is found needs neither
    from litert.model.output import write_at

    data = b"".join(parts)
    sealed = data + _seal(path, purpose, data)
    with open_atomic(path, 0o600) as fd:
        write_at(fd, sealed, 0)


def trim_folder(folder: str, names: re.Pattern[str], limit_bytes: int, newest: str = "") -> None:
    """Removes entries with such names until the rest fits, other than the newest; where that fails, they stay.

    Other processes may use the folder. What killed processes have left of entries goes, too.
    """
    from litert.model.atomic_file import remove_left_overs

    remove_left_overs(folder, names.pattern)
    files = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process was faster, or another user's file
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
        except OSError:  # another user's: it stays, and the next goes in its place
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
