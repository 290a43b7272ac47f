"""Reads the requested arrays from `.npy` and `.npz` files, and refuses arrays larger than the file can contain.

A `.npy` or `.npz` file is not trusted. Without this check, NumPy would allocate memory of the size that an array's
header claims, before it reads any element.
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
"""Maximum number of bytes that one compressed byte may expand to; with deflate, the maximum is 1,032."""


def read_arrays(path: str, choose: Choose) -> Array | dict[str, Array]:
    """Returns the array in a .npy file, or those arrays in a .npz file whose names `choose` selects.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the file has another format, is damaged or encrypted, or needs pickle;
        FILE_IO, if the file cannot be read.
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
            if error.errno != errno.EINVAL:  # the offset is before the start of the file
                raise file_error(error, "cannot read", path) from error
            raise bad_input(path, f"the .npy or .npz file cannot be read: {error}") from None
        except (
            Exception
        ) as error:  # ZIP files and headers may raise any exception, such as zlib.error
            reason = str(error) or type(error).__name__
            raise bad_input(path, f"the .npy or .npz file cannot be read: {reason}") from None
    raise bad_input(path, "the file is not a .npy file, a .npz file or a picture")


def bad_input(
    path: str, what: str, hint: str = "Write the file with numpy.save or numpy.savez."
) -> LiteRtError:
    """Returns the error for a file that is damaged or has another format."""
    return LiteRtError(Status.INVALID_ARGUMENT, what, path, hint)


def _read_members(file: BinaryIO, choose: Choose) -> dict[str, Array]:
    found = {}
    with zipfile.ZipFile(file) as entries:
        members = {info.filename.removesuffix(".npy"): info for info in entries.infolist()}
        for name in choose(list(members)):
            info = members[name]
            if info.file_size > _MOST_DEFLATED * info.compress_size:
                raise ValueError(
                    f"the file says that array '{name}' has {info.file_size} bytes, but its compressed data have "
                    f"only {info.compress_size} bytes"
                )
            with entries.open(info) as entry:
                found[name] = _read_array(entry, info.file_size)
    return found


def _read_array(file: Any, size: int) -> Array:
    """Reads the array in a file, or in a member of a .npz file, which has `size` bytes in all."""
    from numpy.lib import format as npy

    file.seek(0)
    version = npy.read_magic(file)
    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in headers:
        raise ValueError(
            f".npy version {version[0]}.{version[1]} is for elements with named fields, which "
            "tensors do not have"
        )
    shape, _, dtype = headers[version](file)
    count, left = prod(shape), size - file.tell()
    if any(dim < 0 for dim in shape) or not 0 <= count * dtype.itemsize <= left:
        raise ValueError(
            f"the header says {dtype}{list(shape)}, but the elements have {left} bytes"
        )
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)
