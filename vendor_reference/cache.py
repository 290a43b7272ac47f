"""The folder where the reference vendor keeps what it can make again: built programs, probes of drivers.

It is ours alone: it has our mark, its mode is 0700, and neither a link nor a folder of another user is used, since
the machine code in it would run with this user's rights.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress

_NAME = "litert-npu-cache"
_MARK = "CACHEDIR.TAG"
_MARK_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of litert-npu. See https://bford.info/cachedir/
"""


def cache_folder(part: str) -> str:
    """A folder below `$LITERT_NPU_CACHE_DIR/litert-npu-cache`, or below the user's cache folder.

    Args:
      part: which one: "programs". It need not exist.

    Raises:
      OSError: there is no place for it, or it is not ours.
    """
    folder = _folder()
    path = os.path.join(folder, part)
    with suppress(FileNotFoundError, NotADirectoryError):
        _check_ours(folder)
        if not os.path.exists(os.path.join(folder, _MARK)) and os.listdir(folder):
            raise PermissionError(errno.EPERM, "the folder is no cache of litert-npu", folder)
        _check_ours(path)
    return path


def make_cache_folder(part: str) -> str:
    """Makes the folder, if it does not exist.

    Raises:
      OSError: it cannot be made.
    """
    folder = _folder()
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    path = cache_folder(part)  # checks whose it is
    os.chmod(folder, 0o700)
    with suppress(FileExistsError), open(os.path.join(folder, _MARK), "x") as mark:
        mark.write(_MARK_TEXT)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return path


def keep_file(
    part: str, name: str, data: Iterable[bytes], names: re.Pattern[str], limit_bytes: int
) -> None:
    """Writes a file of a part, and removes the least recently used ones of `names` where they grow too large.

    Raises:
      OSError: there is no place for it.
      LiteRtError: it cannot be written.
    """
    from litert.model.atomic_file import open_atomic, trim_folder  # what is found needs neither

    folder = make_cache_folder(part)
    path = os.path.join(folder, name)
    with open_atomic(path) as fd, open(fd, "wb", closefd=False) as stream:
        stream.writelines(data)
    trim_folder(folder, names, limit_bytes, path)


def _check_ours(folder: str) -> None:
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "the folder is a link, or another user's", folder)


def _folder() -> str:
    parent = os.environ.get("LITERT_NPU_CACHE_DIR")
    if not parent:
        import platformdirs  # here: most calls find the variable, or no cache at all

        try:
            parent = platformdirs.user_cache_dir()
        except RuntimeError as error:  # no HOME, and a user that the system does not know
            raise FileNotFoundError(errno.ENOENT, f"no cache folder: {error}") from error
    return os.path.join(os.path.abspath(parent), _NAME)
