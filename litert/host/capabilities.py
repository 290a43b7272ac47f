"""Capabilities: a process gives up what root may do, but for files that Landlock lets it open.

Else native code could freeze a file system, or take more pipes and memory than others may.
"""

from __future__ import annotations

import ctypes
import struct

_VERSION = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH, _IPC_LOCK = 1, 2, 14
_KEPT = 1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH | 1 << _IPC_LOCK
"""To read files of other owners, as Python's packages may be, and to keep a device's memory in place."""

_SETS = struct.Struct("=6I")
"""Effective, permitted and inheritable ones, the lower 32 of each first."""


def give_up_capabilities() -> None:
    """Leaves this thread, and the threads and programs that it starts, no others; it has given up new privileges.

    Raises:
      OSError: the kernel refuses it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", _VERSION, 0)
    sets = ctypes.create_string_buffer(_SETS.size)
    if library.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capabilities cannot be read")
    lower = [bits & _KEPT for bits in _SETS.unpack(sets.raw)[:3]]
    if library.capset(header, _SETS.pack(*lower, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "capabilities cannot be given up")
