"""Machine code of ours: a file in memory that is mapped for execution, and is never written where it runs."""

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
    """Code that can be called.

    Attributes:
      address: of its first byte.
    """

    def __init__(self, code: bytes) -> None:
        """Maps it.

        Raises:
          LiteRtError: UNSUPPORTED, where the system does not allow that.
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
            what = f"this system does not let machine code run that is made here: {error}"
            raise LiteRtError(Status.UNSUPPORTED, what) from error
        self.address = int(found)

    address = 0

    def __del__(self) -> None:
        if self.address:
            self._libc.munmap(self.address, self._size)


def for_machine(codes: Mapping[str, _Code], machine: str) -> _Code:
    """What there is for a machine.

    Raises:
      LiteRtError: UNSUPPORTED, if there is nothing.
    """
    if machine not in codes:
        what = f"there is no machine code for {machine}, only for {' and '.join(codes)}"
        raise LiteRtError(Status.UNSUPPORTED, what)
    return codes[machine]


def memory_calls() -> Any:
    """The C library, with `mmap` and `munmap` that take and give addresses."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _open_file() -> IO[bytes]:
    """A file in memory; a temporary one where there are none, as in a sandbox."""
    try:
        return os.fdopen(os.memfd_create("litert_npu_code", os.MFD_CLOEXEC), "w+b")
    except OSError:
        import tempfile  # here: it is seldom needed

        return tempfile.TemporaryFile()
