"""The folder where the reference vendor keeps what it can make again: built programs, probes of drivers.

It is ours alone: its name is ours, its mode is 0700, and a folder of another user is not used, since the machine
code in it would run with this user's rights.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

_NAME = "litert-npu"


def cache_folder(part: str) -> str:
    """A folder below `$LITERT_NPU_CACHE_DIR/litert-npu`, or below the user's cache folder; it need not exist.

    Args:
      part: which one: "programs".

    Raises:
      PermissionError: the folder belongs to another user.
    """
    folder = _folder()
    with suppress(FileNotFoundError, NotADirectoryError):
        if os.lstat(folder).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the folder belongs to another user", folder)
    return os.path.join(folder, part)


def make_cache_folder(part: str) -> str:
    """Makes the folder, if it does not exist.

    Raises:
      OSError: it cannot be made.
    """
    folder = _folder()
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    path = cache_folder(part)  # checks the owner
    os.chmod(folder, 0o700)
    os.makedirs(path, exist_ok=True)
    return path


def _folder() -> str:
    parent = os.environ.get("LITERT_NPU_CACHE_DIR")
    if not parent:
        import platformdirs  # here: most calls find the variable, or no cache at all

        parent = platformdirs.user_cache_dir()
    return os.path.join(os.path.abspath(parent), _NAME)
