"""The folder in which the reference vendor keeps data that it can make again.

The folder holds compiled kernel programs and the results of driver tests.

The machine code in the cache folder runs with the current user's rights, so the folder must belong to this user
alone. A marker file identifies the folder as the SDK's cache. The cache does not use symbolic links, and it does
not use folders and files to which other users can write. If no such folder can be created, the process works
without a cache.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from litert.host.cache_entry import is_own, read_entry, trim_folder, write_entry
from litert.host.user_folder import user_folder

_NAME = "litert-npu-cache"
_MARK = "CACHEDIR.TAG"
_MARK_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of litert-npu. See https://bford.info/cachedir/
"""


def cache_folder(part: str) -> str:
    """Returns the path of a subfolder in `$LITERT_NPU_CACHE_DIR/litert-npu-cache` or in the user's cache folder.

    Args:
      part: Name of the subfolder, such as "programs". The subfolder does not have to exist.

    Raises:
      OSError: No cache folder can be created, or the cache folder belongs to another user.
    """
    with _noting():
        folder = _folder()
        path = os.path.join(folder, part)
        with suppress(FileNotFoundError, NotADirectoryError):
            _check_ours(folder)
            if not os.path.exists(os.path.join(folder, _MARK)) and os.listdir(folder):
                raise PermissionError(
                    errno.EPERM,
                    "the folder contains files, but is not a cache of litert-npu",
                    folder,
                )
            _check_ours(path)
        return path


def make_cache_folder(part: str) -> str:
    """Creates a cache subfolder if it does not exist.

    Raises:
      OSError: The cache subfolder cannot be created.
    """
    with _noting():
        folder = _folder()
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        path = cache_folder(part)  # also checks the folder's owner
        os.chmod(folder, 0o700)
        with suppress(FileExistsError), open(os.path.join(folder, _MARK), "x") as mark:
            mark.write(_MARK_TEXT)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        return path


def keep_file(
    part: str, name: str, data: Iterable[bytes], names: re.Pattern[str], limit_bytes: int
) -> None:
    """Writes an entry to a cache subfolder.

    If the total size of the entries whose file names match `names` exceeds `limit_bytes`, the least recently used
    entries are removed.

    Raises:
      OSError: The cache subfolder cannot be created or used.
      LiteRtError: The cache entry cannot be written.
    """
    folder = make_cache_folder(part)
    path = os.path.join(folder, name)
    write_entry(path, part, *data)
    trim_folder(folder, names, limit_bytes, path)


def read_file(part: str, name: str) -> bytes:
    """Returns the bytes of a cache entry.

    Raises:
      OSError: The cache entry does not exist, or other users can write to the file.
      LiteRtError: SERIALIZATION, if the cache entry is damaged or was written under another name.
    """
    return read_entry(os.path.join(cache_folder(part), name), part)


@contextmanager
def _noting() -> Iterator[None]:
    """Logs once why there is no cache; in an isolated device process, the host process logs the reason instead."""
    try:
        yield
    except OSError as error:
        serving = sys.modules.get("litert.host.serving")  # set in the process of a device
        if serving is None or not serving.has_host():
            where = f" ({error.filename})" if error.filename else ""
            _note(f"{error.strerror or error}".removesuffix(".") + where)
        raise


@functools.cache
def _note(why: str) -> None:
    import logging  # imported here, since the import takes as long as reading an entry

    logging.getLogger(__name__).warning(
        "Kernels cannot be cached: %s. Therefore, each process builds its kernels again. Set the variable "
        "LITERT_NPU_CACHE_DIR to a new folder that only you can write to.",
        why,
    )


def _check_ours(folder: str) -> None:
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode):
        raise PermissionError(errno.EPERM, "the cache folder is a link", folder)
    if not is_own(found):
        raise PermissionError(errno.EPERM, "other users can write to the cache folder", folder)


def _folder() -> str:
    return os.path.join(user_folder("cache", "LITERT_NPU_CACHE_DIR"), _NAME)
