"""Guards mapped files: a mapped file that becomes shorter causes an error instead of a crash.

A read from bytes that the file no longer has raises SIGBUS. Commands and child processes handle
SIGBUS with machine code, which maps a page of zeros and sets a flag. The flag is checked before a
result is returned or an output appears. Programs that use the packages as a library keep their own
signal handlers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    import mmap

_SIGBUS = 7
_SIG_IGN = 1
_ON_STACK, _WITH_INFO, _NO_DEFER = 0x08000000, 4, 0x40000000
_SIGACTION = "@P128siP"
"""Layout of C's `struct sigaction` on both machines: handler, mask, flags, and a pointer of the C library."""

_is_guarded = False

_note: Any = None
"""A flag that the handler sets to 1; None until the handler is installed."""

_mapped: dict[str, tuple[int, int, int]] = {}
"""Device, inode number and size of each mapped file."""


def guard_mapped_files() -> None:
    """Guards all files that this process maps from now on."""
    global _is_guarded
    _is_guarded = True


@contextmanager
def mapped_files_guarded() -> Iterator[None]:
    """Guards files that the block maps: a block runs one command, and a process may run several commands."""
    global _is_guarded
    was_guarded = _is_guarded
    guard_mapped_files()
    try:
        yield
    finally:
        _is_guarded = was_guarded
        if not was_guarded:
            _mapped.clear()
            if _note is not None:
                _note.value = 0


def map_file(fd: int, path: str) -> mmap.mmap:
    """Maps an open file for reading.

    Raises:
      OSError, ValueError: The file cannot be mapped, or is empty.
    """
    import mmap  # imported here and below, because most commands map nothing

    if _is_guarded:
        found = os.fstat(fd)
        if os.path.dirname(path) == "/proc/self/fd":
            with suppress(OSError):
                path = os.readlink(path)
        _mapped[path] = found.st_dev, found.st_ino, found.st_size
        _install()
    return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)


def check_mapped_files() -> None:
    """Raises an error if zeros were read in the place of a file's bytes.

    Raises:
      LiteRtError: FILE_IO.
    """
    if _note is not None and _note.value:
        error = lost_bytes()
        assert error is not None
        raise error


def lost_bytes() -> LiteRtError | None:
    """Returns the error for files that became shorter or that the disk failed to read.

    The result is None if all files are intact.
    """
    shorter = [path for path, was in _mapped.items() if _is_shorter(path, *was)]
    if not shorter and not (_note is not None and _note.value):
        return None
    what = "the file became shorter" if shorter else "a file became shorter, or its disk failed,"
    return LiteRtError(
        Status.FILE_IO,
        f"{what} while it was read",
        ", ".join(shorter or _mapped),
        "To replace a file, rename a new file over it; do not write into a file that is in use.",
    )


def _is_shorter(path: str, device: int, number: int, size: int) -> bool:
    with suppress(OSError):
        found = os.stat(path)
        return (found.st_dev, found.st_ino) == (device, number) and found.st_size < size
    return False


def _install() -> None:
    """Installs the handler in front of the old SIGBUS handler; does nothing where machine code may not run."""
    global _note
    if _note is not None:
        return
    import ctypes
    import struct

    from litert.core.lost_page_code import default_code, handler_code
    from litert.core.machine_code import Executable

    libc = ctypes.CDLL(None)
    machine = os.uname().machine
    _note = ctypes.c_uint32()
    before = ctypes.create_string_buffer(struct.calcsize(_SIGACTION))
    libc.sigaction(_SIGBUS, None, before)
    next_function, *_ = struct.unpack(_SIGACTION, before)
    with suppress(LiteRtError):
        kept = [_note]
        if next_function <= _SIG_IGN:
            calls = (getattr(libc, name) for name in ("signal", "raise"))
            signal, raise_ = (ctypes.cast(call, ctypes.c_void_p).value or 0 for call in calls)
            kept.append(Executable(default_code(machine, signal, raise_)))
            next_function = kept[-1].address
        page_size, note = os.sysconf("SC_PAGE_SIZE"), ctypes.addressof(_note)
        kept.append(Executable(handler_code(machine, page_size, note, next_function)))
        # This reference stays forever, because the process may end after its modules.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        flags = _ON_STACK | _WITH_INFO | _NO_DEFER
        action = struct.pack(_SIGACTION, kept[-1].address, bytes(128), flags, 0)
        libc.sigaction(_SIGBUS, action, None)
