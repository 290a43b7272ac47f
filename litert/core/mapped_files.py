"""Guards mapped files: if another program shortens a mapped file, this process gets an error instead of a crash.

If a program reads bytes that a mapped file has lost, the operating system sends the signal SIGBUS. In this
project's commands and child processes, a signal handler in machine code then maps a page of zeros and sets a flag.
The process checks the flag before it returns a result or renames an output file. Programs that use the packages as
a library keep their own signal handlers.
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
SIGACTION = "@P128siP"
"""Layout of C's `struct sigaction` on x86-64 and aarch64: handler, mask, flags, pointer of the C library."""

_is_guarded = False

_note: Any = None
"""Flag that the signal handler sets to 1; None until the handler is installed."""

_mapped: dict[str, tuple[int, int, int]] = {}
"""Device, inode number and size of each mapped file."""


def guard_mapped_files() -> None:
    """Guards all files that this process maps after this call."""
    global _is_guarded
    _is_guarded = True


@contextmanager
def mapped_files_guarded() -> Iterator[None]:
    """Guards files that the `with` block maps; the block runs one of several commands of a process."""
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
    """Raises an error if the process read zeros instead of bytes that a mapped file has lost.

    Raises:
      LiteRtError: FILE_IO, if a mapped file has lost bytes.
    """
    if _note is not None and _note.value:
        error = lost_bytes()
        assert error is not None
        raise error


def lost_bytes() -> LiteRtError | None:
    """Returns an error if a mapped file became shorter, or if its disk failed.

    The result is None if all mapped files are intact.
    """
    shorter = [path for path, was in _mapped.items() if _is_shorter(path, *was)]
    if not shorter and not (_note is not None and _note.value):
        return None
    what = "the file became shorter" if shorter else "a file became shorter, or its disk failed,"
    return LiteRtError(
        Status.FILE_IO,
        f"{what} while it was read",
        ", ".join(shorter or _mapped),
        "To replace a file that is in use, rename a new file over it; do not write into the old "
        "file.",
    )


def _is_shorter(path: str, device: int, number: int, size: int) -> bool:
    with suppress(OSError):
        found = os.stat(path)
        return (found.st_dev, found.st_ino) == (device, number) and found.st_size < size
    return False


def _install() -> None:
    """Installs the SIGBUS handler before the old handler; does nothing if the system forbids generated code."""
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
    before = ctypes.create_string_buffer(struct.calcsize(SIGACTION))
    libc.sigaction(_SIGBUS, None, before)
    next_function, *_ = struct.unpack(SIGACTION, before)
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
        action = struct.pack(SIGACTION, kept[-1].address, bytes(128), flags, 0)
        libc.sigaction(_SIGBUS, action, None)
