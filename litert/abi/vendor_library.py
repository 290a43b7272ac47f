"""Loads a vendor's library, compiler plugin or dispatch, as both hosts and the checks of vendors do."""

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
    """A library, for cffi, with flags of `dlopen`; it stays loaded, since its threads outlive what they are for.

    It may be linked with the functions of `compiler_options.h`, in either of the two libraries: many vendors make
    both of the same objects. A plugin may look them up as well, and so must find them; a dispatch library that is
    not linked with them loads also where no temporary file can be executed.

    Raises:
      LiteRtError: DYNAMIC_LOADING, with the loader's reason; INVALID_ARGUMENT, for what is no regular file.
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
            f"it does not load: {_without_path(str(error), path)}",
            path,
            "Install what it is linked with, or take it out of the folder."
            if os.path.exists(absolute)
            else "Build it, or install the vendor's package anew.",
        ) from error


def _run_constructors(path: str, flags: int) -> None:
    """Loads a library without Python's lock, for good; whoever loads it next gets the error, if there is one.

    cffi keeps the lock: a constructor that hangs would keep all threads of Python from running, also the one that
    ends a child process with its parent.
    """
    dlopen = ctypes.CDLL(None).dlopen  # called as any C function: without the lock
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    dlopen(os.fsencode(path), flags | os.RTLD_NODELETE)


def _without_path(message: str, path: str) -> str:
    """The loader's message without what cffi and the loader put before it."""
    for prefix in (f"cannot load library '{os.path.abspath(path)}': ", f"{path}: "):
        message = message.removeprefix(prefix)
    return message.partition(".  Additionally, ctypes")[0]
