"""How a compiler plugin's library is loaded: as stock LiteRT does it, but where a sanitizer is in the process."""

from __future__ import annotations

import ctypes
import os


def plugin_loading_flags() -> int:
    """Flags for `dlopen`: those of stock, which lets a library's own symbols go before all others.

    AddressSanitizer ends a process that loads with RTLD_DEEPBIND, since its own functions would be passed over. It
    is there where an author has it preloaded, for a library that was built with it.
    """
    flags = os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_NODELETE
    has_sanitizer = hasattr(ctypes.CDLL(None), "__asan_init")
    return flags if has_sanitizer else flags | os.RTLD_DEEPBIND


def run_constructors(path: str, flags: int) -> None:
    """Loads a library without Python's lock, for good; whoever loads it next gets the error, if there is one.

    cffi keeps the lock: a constructor that hangs would keep all threads of Python from running, also the one that
    ends a child process with its parent.
    """
    dlopen = ctypes.CDLL(None).dlopen  # called as any C function: without the lock
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    dlopen(os.fsencode(path), flags | os.RTLD_NODELETE)
