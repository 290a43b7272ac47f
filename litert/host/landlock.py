"""Landlock: a process permanently gives up access to the network and to files that it does not need.

The restriction applies to the calling thread, and to threads and processes that it starts later.
Landlock restricts access to the contents of files, but a process can still see whether a file exists.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from enum import IntFlag

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
_BIND_AND_CONNECT_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3


class Access(IntFlag):
    """Kinds of access to a file, or to files below a directory."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Access.READ_FILE | Access.READ_DIR
WRITE = (
    READ
    | Access.WRITE_FILE
    | Access.TRUNCATE
    | Access.MAKE_REG
    | Access.MAKE_DIR
    | Access.REMOVE_FILE
    | Access.REMOVE_DIR
    | Access.REFER
)
USE_DEVICE = Access.READ_FILE | Access.WRITE_FILE | Access.TRUNCATE | Access.IOCTL_DEV
_OF_FILES = USE_DEVICE | Access.EXECUTE
_OF_VERSIONS = (1 << 13, 1 << 14, 1 << 15, 1 << 15, 1 << 16)
"""For each known version of Landlock, a bit that is above the bits of all access rights in this version.

Later versions of Landlock are treated like the last known version.
"""


def why_no_landlock() -> str:
    """Returns the reason why this system has no Landlock; "" if the system has Landlock."""
    if _version() > 0:
        return ""
    return f"no Landlock: {os.strerror(ctypes.get_errno()).lower()}"


def restrict(rules: Iterable[tuple[str, Access]]) -> None:
    """Restricts this thread to the existing paths in `rules`; denies network and signals to other processes.

    The thread must have set `no_new_privs` before.

    Raises:
      OSError: The kernel refuses the call.
    """
    version = _version()
    handled = Access(_OF_VERSIONS[min(version, len(_OF_VERSIONS)) - 1] - 1)
    attributes = struct.pack(
        "=QQQ",
        handled,
        _BIND_AND_CONNECT_TCP if version >= 4 else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    ruleset = _call(
        _CREATE_RULESET, attributes, len(attributes), 0
    )  # old kernels accept zeros after the fields that they know
    try:
        for path, access in rules:
            _add(ruleset, path, access & handled)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _add(ruleset: int, path: str, access: Access) -> None:
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                access &= _OF_FILES
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, fd), 0)
        finally:
            os.close(fd)


def _version() -> int:
    """Returns the version of the kernel's Landlock; less than 1 if there is none."""
    return int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


def _call(number: int, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(library.syscall(number, *plain))
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock refuses")
    return result
