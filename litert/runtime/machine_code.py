"""Machine code of ours: a file in memory that is mapped for execution, and is never written where it runs."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import IO, TypeVar

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.sandbox import is_sandboxed

_Code = TypeVar("_Code")


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
        import numpy as np  # which finds the address of memory that cannot be written

        try:
            with _open_file() as file:
                file.write(code)
                file.flush()
                self._memory = mmap.mmap(
                    file.fileno(), len(code), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC
                )
        except OSError as error:
            raise LiteRtError(
                Status.UNSUPPORTED, f"this system does not let code run that measures ops: {error}"
            ) from error
        self.address = int(np.frombuffer(self._memory, np.uint8).ctypes.data)


def _open_file() -> IO[bytes]:
    """A file in memory; in a sandbox, which has none, a temporary one."""
    if is_sandboxed():
        return tempfile.TemporaryFile()
    return os.fdopen(os.memfd_create("litert_npu_code", os.MFD_CLOEXEC), "w+b")


def for_machine(codes: Mapping[str, _Code], machine: str) -> _Code:
    """What there is for a machine.

    Raises:
      LiteRtError: UNSUPPORTED, if there is nothing.
    """
    if machine not in codes:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"ops of the CPU are not measured on {machine}, only on {' and '.join(codes)}",
        )
    return codes[machine]
