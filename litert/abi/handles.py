"""Handles: numbers that C code holds in place of the host's objects.

A handle is a number without a meaning outside of the host. The host looks up a vendor's handle
instead of following a pointer, so that a wrong handle causes an error instead of a crash.
"""

from __future__ import annotations

import itertools
from typing import Any, TypeVar

from litert.core.errors import LiteRtError
from litert.core.status import Status

STEP = 16
"""Distance between consecutive handles, in any table."""

_Object = TypeVar("_Object")


# The counter is common to all tables: a handle of one table is unknown to the others. No address of
# a process looks like a handle.
_numbers = itertools.count(0x4C52_0000_0000_0010, STEP)


class Handles:
    """The objects behind the handles of C code; each object lives until its handle is dropped."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def put(self, value: object) -> int:
        """Makes a handle for an object: a new number that is never 0."""
        handle = next(_numbers)
        self._objects[handle] = value
        return handle

    def get(self, handle: Any, kind: type[_Object]) -> _Object:
        """Returns the object of a kind behind a handle, which is a number or a cffi pointer.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a handle that is NULL, was never given, was dropped, or
            is of another kind.
        """
        found = self._objects.get(handle)
        if found.__class__ is kind:  # the usual case, and some plugins call this a million times
            return found
        number = handle if isinstance(handle, int) else address_of(handle)
        found = self._objects.get(number)
        if found is not None and isinstance(found, kind):
            return found
        if not number:
            what = f"the {kind.__name__} handle is NULL"
        elif found is None:
            what = f"{number:#x} is not a handle of a {kind.__name__}: it was never given, or was released"
        else:
            what = f"the {kind.__name__} handle refers to an object of type {type(found).__name__}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what)

    def drop(self, handle: Any) -> None:
        """Drops a handle; an unknown handle is ignored."""
        self._objects.pop(handle if isinstance(handle, int) else address_of(handle), None)

    def clear(self) -> None:
        """Drops all handles."""
        self._objects.clear()


def address_of(pointer: Any) -> int:
    """Returns a cffi pointer as a number."""
    from litert.abi.definitions import ffi

    return int(ffi.cast("uintptr_t", pointer))
