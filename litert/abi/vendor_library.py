"""Loads a vendor's compiler plugin or dispatch library, for hosts and for the checks of vendors."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.symbol_library import SYMBOLS, load_symbols
from litert.core.errors import LiteRtError
from litert.core.input_file import check_code
from litert.core.status import Status


def open_library(path: str, flags: int, *, is_plugin: bool) -> Any:
    """Loads a library for cffi, with flags of `dlopen`.

    The library stays loaded, because its threads may outlive its use.

    Either kind of library may be linked with the functions of `compiler_options.h`: many vendors
    build both from the same objects. A plugin may also look the functions up, and so must find
    them; a dispatch library that is not linked with them loads even if temporary files cannot be
    executed.

    Raises:
      LiteRtError: DYNAMIC_LOADING, with the loader's reason; INVALID_ARGUMENT, if the path is not a
        regular file.
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
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            f"the library does not load: {_without_path(str(error), path)}",
            path,
            "Install the libraries that it is linked with, or remove it from the directory."
            if os.path.exists(absolute)
            else "Build the library (in C or C++: run make in its folder), or install the package again.",
        ) from error


def _run_constructors(path: str, flags: int) -> None:
    """Loads a library without Python's lock, permanently; the next load returns the error, if there is one.

    cffi keeps the lock: a constructor that hangs would block all Python threads, including the
    thread that ends a child process with its parent.
    """
    dlopen = ctypes.CDLL(None).dlopen  # called as any C function: without the lock
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    dlopen(os.fsencode(path), flags | os.RTLD_NODELETE)


def _without_path(message: str, path: str) -> str:
    """Returns the loader's message without the prefixes from cffi and the loader."""
    for prefix in (f"cannot load library '{os.path.abspath(path)}': ", f"{path}: "):
        message = message.removeprefix(prefix)
    return message.partition(".  Additionally, ctypes")[0]
