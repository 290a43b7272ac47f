"""Loads machine code that this project generates.

The code is never in writable memory, because it is in an in-memory file that is mapped for execution but not for
writing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Mapping
from typing import IO, Any, TypeVar

from litert.core.errors import LiteRtError
from litert.core.status import Status

_Code = TypeVar("_Code")

_FAILED = ctypes.c_void_p(-1).value


class Executable:
    """Machine code in executable memory.

    Attributes:
      address: Address of the first byte of the code.
    """

    def __init__(self, code: bytes) -> None:
        """Maps machine code for execution.

        Raises:
          LiteRtError: UNSUPPORTED, if the system does not allow executable mappings.
        """
        self._libc, self._size = memory_calls(), len(code)
        try:
            with _open_file() as file:
                file.write(code)
                file.flush()
                access = mmap.PROT_READ | mmap.PROT_EXEC
                found = self._libc.mmap(
                    None, self._size, access, mmap.MAP_PRIVATE, file.fileno(), 0
                )
            if found == _FAILED:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except OSError as error:
            what = f"this system does not allow generated machine code: {error}"
            raise LiteRtError(Status.UNSUPPORTED, what) from error
        self.address = int(found)

    address = 0

    def __del__(self) -> None:
        if self.address:
            self._libc.munmap(self.address, self._size)


def for_machine(codes: Mapping[str, _Code], machine: str) -> _Code:
    """Returns the code for a processor architecture.

    Raises:
      LiteRtError: UNSUPPORTED, if `codes` lacks this processor architecture.
    """
    if machine not in codes:
        what = f"machine code exists only for {' and '.join(codes)}, not for {machine}"
        raise LiteRtError(Status.UNSUPPORTED, what)
    return codes[machine]


def memory_calls() -> Any:
    """Returns the C library; its functions `mmap` and `munmap` are declared with integers as addresses."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _open_file() -> IO[bytes]:
    """Opens a file in memory; opens a temporary file if the system refuses files in memory, as in a sandbox."""
    try:
        return os.fdopen(os.memfd_create("litert_npu_code", os.MFD_CLOEXEC), "w+b")
    except OSError:
        import tempfile  # imported here, because it is seldom needed

        return tempfile.TemporaryFile()
