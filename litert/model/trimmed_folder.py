"""A cache folder that is kept below a size: the least recently used files go. Files of any other name stay."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

_LEFT_OVER_AGE_S = 24 * 3600


def trim_folder(folder: str, names: re.Pattern[str], limit_bytes: int, newest: str = "") -> None:
    """Removes files until the rest fits; where that fails, they stay.

    Files that `open_atomic` left behind when its process was killed go after a day.

    Args:
      folder: which may hold other files, and which other processes may use.
      names: of the files that belong to the cache.
      limit_bytes: of these files together.
      newest: path of a file that stays, however large it is.
    """
    left_over = re.compile(rf"\.(?:{names.pattern})\..*\.tmp")
    files = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process was faster, or another user's file
                if not entry.is_file(follow_symlinks=False):
                    continue
                stat = entry.stat(follow_symlinks=False)
                if names.fullmatch(entry.name):
                    files.append((stat.st_mtime_ns, stat.st_size, entry.path))
                elif left_over.fullmatch(entry.name):
                    _remove_if_old(entry.path, stat.st_mtime)
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


def _remove_if_old(path: str, modified_s: float) -> None:
    if modified_s + _LEFT_OVER_AGE_S < time.time():
        os.unlink(path)
