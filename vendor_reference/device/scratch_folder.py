"""A temporary folder in which a driver unpacks and compiles files.

Each process has a folder of its own, and removes this folder at exit. `program_cache.py` stores compiled programs
permanently.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import logging
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress

from litert.host.sandbox import is_sandboxed
from litert.model.atomic_file import make_temporary_folder, remove_folder
from vendor_reference.cache import make_cache_folder

_LOG = logging.getLogger(__name__)

_LOCK = ".litert-npu-lock"
"""Name of the lock file; only folders that contain a lock file may be removed."""

_NAMES = re.compile(r"\d+-\w+")
_YOUNG_S = 60
_LEAST_FREE = 16 << 20  # bytes; if the disk is full, a compiler fails without a reason


def make_scratch_folder() -> str:
    """Creates a scratch folder for this process, and removes the scratch folders of processes that have ended."""
    if is_sandboxed():  # no cache; the parent removes the temporary folder
        return tempfile.mkdtemp(prefix="litert-npu-")
    try:
        parent = make_cache_folder("scratch")
        if shutil.disk_usage(parent).free < _LEAST_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), parent)
        folder = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent)
    except OSError as error:
        _LOG.info("Cannot create a scratch folder in the cache folder: %s", error)
        parent, folder = "", make_temporary_folder()
    lock = os.open(os.path.join(folder, _LOCK), os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel unlocks the file when the process ends
    atexit.register(_remove, folder, os.getpid())
    if parent:
        _sweep(parent)
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child also runs the parent's exit functions
        remove_folder(folder)


def _sweep(parent: str) -> None:
    """Removes scratch folders that no process has locked, except new folders, which may not be locked yet."""
    with suppress(OSError):
        for entry in os.scandir(parent):
            is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _YOUNG_S
            if is_old and _NAMES.fullmatch(entry.name) and _is_left(entry.path):
                remove_folder(entry.path)


def _is_left(folder: str) -> bool:
    """Returns whether a folder has a lock file that no process holds."""
    try:
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
