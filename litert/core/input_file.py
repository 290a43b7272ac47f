"""Opens and reads input files, which must be regular files.

Pipes, devices and directories are refused, because reading them may block or never end.

An output that is made from private files must be private. Within a block `common_permissions`, each input file
therefore restricts the permissions of new files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import BinaryIO

from litert.core.errors import LiteRtError, file_error
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

_ANY = 0o666
_NO_PIPE = "Write the input to a file first: the input cannot come through a pipe."

_permissions: ContextVar[list[int] | None] = ContextVar("permissions", default=None)


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for unbuffered reading.

    Raises:
      LiteRtError: NOT_FOUND, if the file does not exist; INVALID_ARGUMENT, if the path is not a regular file;
        FILE_IO, if the file cannot be opened.
    """
    name = os.fspath(path)
    try:
        # Before opening, which may block or have an effect
        _check_regular(os.stat(name).st_mode, name)
        file = open(name, "rb", buffering=0, opener=_open)  # noqa: SIM115 (the caller's)
        try:
            mode = os.fstat(file.fileno()).st_mode
            _check_regular(mode, name)
        except BaseException:
            file.close()
            raise
    except FileNotFoundError as error:
        hint = _NO_PIPE if name == "-" else _missing_hint(name)
        raise LiteRtError(Status.NOT_FOUND, "no such file", name, hint) from error
    except ValueError as error:  # a name with a null character
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"the path is not a valid file name: {error}", name
        ) from error
    except OSError as error:
        raise file_error(error, "cannot open the file", name) from error
    common = _permissions.get()
    if common is not None:
        common[0] &= mode
    return file


def check_input(path: str | os.PathLike[str]) -> None:
    """Raises an error if a path is not a regular, readable file.

    Raises:
      LiteRtError: The same errors as in `open_input`.
    """
    open_input(path).close()


def check_code(path: str) -> None:
    """Raises an error if a library or module is not a regular file, because loading a pipe would never end.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the path exists and is not a regular file.
    """
    with suppress(OSError):  # the loader reports why it cannot load
        _check_regular(os.stat(path).st_mode, path)


def read_input(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """Reads a regular file, or at most its first `most` bytes.

    Raises:
      LiteRtError: The same errors as in `open_input`; also MEMORY_ALLOCATION_FAILURE, if the bytes do not fit into
        memory.
    """
    with open_input(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            return read_all(file, size if most < 0 else min(most, size))
        except OSError as error:
            raise file_error(error, "cannot read", os.fspath(path)) from error
        except MemoryError as error:
            what = f"not enough memory for the {size} bytes of the file"
            raise LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, what, os.fspath(path)) from error


def read_all(file: BinaryIO, size: int) -> bytes:
    """Returns the first `size` bytes of a file; fewer bytes if the file has become shorter."""
    parts: list[bytes] = []
    done = 0
    while done < size:
        part = os.pread(file.fileno(), size - done, done)
        if not part:
            break
        parts.append(part)
        done += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


@contextmanager
def common_permissions() -> Iterator[None]:
    """In the `with` block, a new file gets only those permissions that every input file opened so far has."""
    outer = _permissions.get()
    token = _permissions.set([_ANY if outer is None else outer[0]])
    try:
        yield
    finally:
        _permissions.reset(token)


def output_permissions() -> int:
    """Returns the permissions that every input file opened in the block has; new files get no others."""
    common = _permissions.get()
    return _ANY if common is None else common[0] & _ANY | stat.S_IRUSR | stat.S_IWUSR


def _check_regular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        what = (
            "the path is a folder, not a file"
            if stat.S_ISDIR(mode)
            else "the path is not a regular file"
        )
        hint = "" if stat.S_ISDIR(mode) else _NO_PIPE
        raise LiteRtError(Status.INVALID_ARGUMENT, what, path, hint)


def _missing_hint(name: str) -> str:
    """Returns the hint for a missing file: a file with a similar name, or the folder that was searched."""
    folder, file = os.path.split(name)
    try:
        files = os.listdir(folder or ".")
        here = "" if os.path.isabs(name) else f"The current folder is {os.getcwd()}."
    except OSError:
        return f"The folder {folder} does not exist." if folder else ""
    return did_you_mean(file, files, here)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
