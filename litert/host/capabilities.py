"""Linux capabilities: a process gives up root's privileges, but can still open the files that Landlock allows.

With root's privileges, native code could freeze a file system, or use more pipes and memory than other users may.
"""

from __future__ import annotations

import ctypes
import struct

_VERSION = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH, _IPC_LOCK = 1, 2, 14
_KEPT = 1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH | 1 << _IPC_LOCK
"""Capabilities to read files of other owners, such as Python's packages, and to lock a device's memory."""

_SETS = struct.Struct("=6I")
"""Effective, permitted and inheritable capabilities; the lower 32 bits come first."""


def give_up_capabilities() -> None:
    """Drops all capabilities except `_KEPT`, for this thread and for threads and programs that it starts later.

    The thread must have set `no_new_privs` before.

    Raises:
      OSError: The kernel refuses the call.
    """
    library = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", _VERSION, 0)
    sets = ctypes.create_string_buffer(_SETS.size)
    if library.capget(header, sets):
        raise OSError(ctypes.get_errno(), "cannot read the thread's capabilities")
    lower = [bits & _KEPT for bits in _SETS.unpack(sets.raw)[:3]]
    if library.capset(header, _SETS.pack(*lower, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "cannot drop the thread's capabilities")
