"""The folder where the reference vendor keeps what it can make again: built programs, probes of drivers.

It is ours alone, since the machine code in it runs with this user's rights: it has our mark, and no link, folder
or file that others can write to is used. Who can have no such folder works without one.
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
    """A folder below `$LITERT_NPU_CACHE_DIR/litert-npu-cache`, or below the user's cache folder.

    Args:
      part: which one: "programs". It need not exist.

    Raises:
      OSError: there is no place for it, or it is not ours.
    """
    with _noting():
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
    with _noting():
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
    """Writes an entry of a part, and removes the least recently used ones of `names` where they grow too large.

    Raises:
      OSError: there is no place for it.
      LiteRtError: it cannot be written.
    """
    folder = make_cache_folder(part)
    path = os.path.join(folder, name)
    write_entry(path, part, *data)
    trim_folder(folder, names, limit_bytes, path)


def read_file(part: str, name: str) -> bytes:
    """What an entry of a part holds.

    Raises:
      OSError: it is not there, or not to be trusted.
      LiteRtError: SERIALIZATION, if it is damaged, or was another's.
    """
    return read_entry(os.path.join(cache_folder(part), name), part)


@contextmanager
def _noting() -> Iterator[None]:
    """Says once why nothing is kept; for the process of a device, its host says it."""
    try:
        yield
    except OSError as error:
        serving = sys.modules.get("litert.host.serving")  # which the process of a device has
        if serving is None or not serving.has_host():
            _note(": ".join(filter(None, (error.strerror, error.filename))))
        raise


@functools.cache
def _note(why: str) -> None:
    import logging  # here: it takes as long to import as an entry to read

    logging.getLogger(__name__).warning(
        "There is no cache, and each process builds its kernels (%s). LITERT_NPU_CACHE_DIR names a folder for it.",
        why,
    )


def _check_ours(folder: str) -> None:
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode) or not is_own(found):
        raise PermissionError(errno.EPERM, "a link, or a folder that others can write to", folder)


def _folder() -> str:
    return os.path.join(user_folder("cache", "LITERT_NPU_CACHE_DIR"), _NAME)
