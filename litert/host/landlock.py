"""Landlock: a process gives up the files that it does not need, and the network, for good.

It restricts the calling thread, and the threads and processes that it starts from then on. It checks what is
opened and changed, not whether a file exists.
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
    """What may be done with a file, or below a folder."""

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
"""All access rights that a version knows have lower bits than this; later versions are as the last."""


def why_no_landlock() -> str:
    """Why this system has no Landlock; "" where it has."""
    if _version() > 0:
        return ""
    return f"no Landlock: {os.strerror(ctypes.get_errno()).lower()}"


def restrict(rules: Iterable[tuple[str, Access]]) -> None:
    """Leaves this thread the paths of the rules, of those that exist; no network, no signals to other processes.

    It must have given up new privileges.

    Raises:
      OSError: the kernel refuses it.
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
    )  # old kernels take zeros behind theirs
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
    """The version of the kernel's Landlock; less than 1 where there is none."""
    return int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


def _call(number: int, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(library.syscall(number, *plain))
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock refuses")
    return result
