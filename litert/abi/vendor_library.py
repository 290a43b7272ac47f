"""Loads a vendor's compiler plugin or dispatch library, for hosts and for `vendor check`."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.symbol_library import SYMBOLS, load_symbols
from litert.core.errors import LiteRtError
from litert.core.input_file import check_code
from litert.core.status import Status

_NO_FILE = "Build the library (in C or C++: run make in the vendor's folder), or install the package again."
_NO_LIBRARY = ("file too short", "invalid ELF header", "wrong ELF class")
"""The loader's words about a file that is not a library for this machine."""
_OTHER_MACHINE = "cannot open shared object file: No such file"
"""The loader's words about a file that exists, but is a library for another kind of processor."""


def open_library(path: str, flags: int, *, is_plugin: bool) -> Any:
    """Loads a vendor's library with cffi and flags of `dlopen`.

    The library stays loaded, because its threads may run longer than the host uses it.

    A compiler plugin or dispatch library may link the functions of `compiler_options.h`, because many vendors
    build both libraries from the same object files. A plugin may also look these functions up, so they must exist
    in the process. A dispatch library that does not link these functions loads even if files in the temporary
    folder cannot be executed.

    Raises:
      LiteRtError: DYNAMIC_LOADING, if the library does not load; INVALID_ARGUMENT, if the path is not a regular
        file.
    """
    why_no_symbols = None
    try:
        load_symbols()
    except LiteRtError as error:
        if is_plugin:
            raise
        why_no_symbols = error
    absolute = os.path.abspath(path)
    check_code(absolute)
    try:
        _run_constructors(absolute, flags)
        return ffi.dlopen(absolute, flags)
    except OSError as error:
        if why_no_symbols and any(name in str(error) for name in SYMBOLS):
            raise why_no_symbols from error
        reason = _without_path(str(error), path)
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the loader cannot load the library: {reason}",
            path,
            _hint(reason) if os.path.exists(absolute) else _NO_FILE,
        ) from error


def _run_constructors(path: str, flags: int) -> None:
    """Loads a library permanently, without Python's global lock; errors are left to the next load by cffi.

    cffi keeps the lock while it loads: a constructor that hangs would block all Python threads, including the
    thread that ends a child process after its parent's end.
    """
    dlopen = ctypes.CDLL(None).dlopen  # called as any C function: without the lock
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    dlopen(os.fsencode(path), flags | os.RTLD_NODELETE)


def _hint(reason: str) -> str:
    """Returns the hint for a reason why the loader cannot load a library that exists."""
    if reason.startswith(_OTHER_MACHINE) or any(text in reason for text in _NO_LIBRARY):
        return (
            "The file exists, but is damaged or is not a library for this machine: build or copy it again, or "
            "remove it."
        )
    return (
        "Install the libraries that this library links, or remove this library from the directory."
    )


def _without_path(message: str, path: str) -> str:
    """Returns the loader's error message without the prefixes that cffi and the loader add."""
    for prefix in (f"cannot load library '{os.path.abspath(path)}': ", f"{path}: "):
        message = message.removeprefix(prefix)
    return message.partition(".  Additionally, ctypes")[0]
