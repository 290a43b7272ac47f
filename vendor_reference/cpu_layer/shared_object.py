"""Loads a shared object from bytes: an asset has no path, and its file may be anybody's to change."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cpu_layer.elf import check_shared_object

_HINT = "It must need no other libraries than the system's, and have all its functions."


def load_shared_object(data: memoryview, where: str) -> ctypes.CDLL:
    """Loads a shared object; it stays loaded as long as the process lives.

    Args:
      data: all of the file.
      where: its name, for messages.

    Raises:
      LiteRtError: INVALID_ARGUMENT or UNSUPPORTED_RUNTIME_VERSION, for what is none of this machine's;
        DYNAMIC_LOADING, with the loader's words; FILE_IO.
    """
    check_shared_object(data, where)
    try:
        return _load_from_memory(data)
    except (OSError, AttributeError):  # no such files here, or none that may be executed
        return _load_from_folder(data, where)


def _load_from_memory(data: memoryview) -> ctypes.CDLL:
    """By a file without a name, on Linux.

    It stays open: the loader knows libraries by their names, and would take another one whose file had the same
    number for this one.
    """
    fd = os.memfd_create("litert-npu-asset", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        return ctypes.CDLL(f"/proc/self/fd/{fd}")
    except BaseException:
        os.close(fd)
        raise


def _load_from_folder(data: memoryview, where: str) -> ctypes.CDLL:
    """By a file in a folder that is this user's alone, and gone when this returns."""
    try:
        folder = tempfile.mkdtemp(prefix="litert-npu-")
    except OSError as error:
        raise LiteRtError(
            Status.FILE_IO, f"no folder to load a library from: {error}", where
        ) from error
    try:
        path = os.path.join(folder, "asset.so")
        with open(path, "wb") as file:
            file.write(data)
        return ctypes.CDLL(path)
    except OSError as error:
        reason = str(error).replace(f"{folder}/", "")
        raise LiteRtError(
            Status.DYNAMIC_LOADING, f"the library cannot be loaded: {reason}", where, _HINT
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
