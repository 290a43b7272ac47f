"""Libraries that are to be checked: loaded with a vendor's fault in mind."""

from __future__ import annotations

import os
from typing import Any

from litert.abi.conformance.call_trace import CallTrace
from litert.abi.conformance.checks import BrokenRuleError
from litert.abi.definitions import ffi


def open_library(path: str, flags: int, trace: CallTrace) -> Any:
    """Loads a library.

    Raises:
      BrokenRuleError: the loader's words.
    """
    try:
        return trace.call("dlopen", ffi.dlopen, os.path.abspath(path), flags)
    except OSError as error:
        raise BrokenRuleError(f"dlopen: {error}") from error


def find_symbol(library: Any, name: str) -> Any:
    """A function of a library; None if it does not export it."""
    try:
        return getattr(library, name)
    except (AttributeError, ffi.error):
        return None
