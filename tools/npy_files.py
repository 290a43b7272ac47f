"""Reads `.npy` and `.npz` files: only requested arrays, and none that is larger than its file can contain.

The file is not trusted: NumPy makes room for what a header says before it looks for the elements.
"""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from litert.core.errors import LiteRtError, file_error
from litert.core.input_file import open_input
from litert.core.status import Status

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Choose: TypeAlias = Callable[[Sequence[str]], Iterable[str]]

_NPY = b"\x93NUMPY"
_NPZ = (b"PK\x03\x04", b"PK\x05\x06")  # a ZIP file, which may be empty
_MOST_DEFLATED = 1100
"""Maximum number of bytes from one compressed byte; deflate makes at most 1,032."""


def read_arrays(path: str, choose: Choose) -> Array | dict[str, Array]:
    """Returns the array of a .npy file, or the arrays of a .npz file that `choose` picks by their names.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the file has another format, is damaged or encrypted, or needs pickle;
        FILE_IO.
    """
    with open_input(path) as file:
        try:
            beginning = file.read(len(_NPY))
            if beginning.startswith(_NPY):
                return _read_array(file, file.seek(0, os.SEEK_END))
            if beginning.startswith(_NPZ):
                return _read_members(file, choose)
        except (LiteRtError, MemoryError):
            raise
        except OSError as error:
            if error.errno != errno.EINVAL:  # which is an offset before the file's begin
                raise file_error(error, "cannot read", path) from error
            raise bad_input(path, f"a .npy or .npz that cannot be read: {error}") from None
        except (
            Exception
        ) as error:  # ZIP files and headers raise anything, as zlib.error and TokenError
            raise bad_input(path, f"a .npy or .npz that cannot be read: {error}") from None
    raise bad_input(path, "the file is no .npy, no .npz and no picture")


def bad_input(path: str, what: str) -> LiteRtError:
    """Returns the error for a file that is damaged or has another format."""
    hint = "Write it with numpy.save or numpy.savez."
    return LiteRtError(Status.INVALID_ARGUMENT, what, path, hint)


def _read_members(file: BinaryIO, choose: Choose) -> dict[str, Array]:
    found = {}
    with zipfile.ZipFile(file) as entries:
        members = {info.filename.removesuffix(".npy"): info for info in entries.infolist()}
        for name in choose(list(members)):
            info = members[name]
            if info.file_size > _MOST_DEFLATED * info.compress_size:
                raise ValueError(f"'{name}' of {info.file_size} bytes in {info.compress_size}")
            with entries.open(info) as entry:
                found[name] = _read_array(entry, info.file_size)
    return found


def _read_array(file: Any, size: int) -> Array:
    """An array of a file, or of a member of one, of `size` bytes in all."""
    from numpy.lib import format as npy

    file.seek(0)
    version = npy.read_magic(file)
    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in headers:
        raise ValueError(
            f"version {version[0]}.{version[1]}, which is for elements with named parts"
        )
    shape, _, dtype = headers[version](file)
    count, left = prod(shape), size - file.tell()
    if any(dim < 0 for dim in shape) or not 0 <= count * dtype.itemsize <= left:
        raise ValueError(f"{dtype}{list(shape)} by its header, with {left} bytes of elements")
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)
