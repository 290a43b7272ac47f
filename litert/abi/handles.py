"""Makes handles, which are numbers that C code holds in place of the host's objects.

A handle has a meaning only in the host. The host looks up each handle that a vendor passes, so that a wrong handle
causes an error, while a wrong pointer would cause a crash.
"""

from __future__ import annotations

import itertools
from typing import Any, TypeVar

from litert.core.errors import LiteRtError
from litert.core.status import Status

STEP = 16
"""Difference between consecutive handles of a table."""

_Object = TypeVar("_Object")


# The counter is common to all tables: a handle of one table is unknown to the others. No address of
# a process looks like a handle.
_numbers = itertools.count(0x4C52_0000_0000_0010, STEP)


class Handles:
    """A table of the objects that handles stand for; each object lives until its handle is dropped."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def put(self, value: object) -> int:
        """Makes a handle for an object; a handle is a new number, and never 0."""
        handle = next(_numbers)
        self._objects[handle] = value
        return handle

    def get(self, handle: Any, kind: type[_Object]) -> _Object:
        """Returns the object that a handle stands for; the handle is a number or a cffi pointer.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the handle is NULL, was never made, was dropped, or stands for another
            kind of object.
        """
        found = self._objects.get(handle)
        if found.__class__ is kind:  # the usual case, and some plugins call this a million times
            return found
        number = handle if isinstance(handle, int) else address_of(handle)
        found = self._objects.get(number)
        if found is not None and isinstance(found, kind):
            return found
        name = kind.__name__.lstrip("_")
        if not number:
            what = f"the caller passed NULL instead of a handle of type {name}"
        elif found is None:
            what = (
                f"{number:#x} is not the handle of an existing {name}: "
                "the handle was never made, or was released"
            )
        else:
            other = type(found).__name__.lstrip("_")
            what = f"the caller passed a handle of type {other} instead of a handle of type {name}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what)

    def drop(self, handle: Any) -> None:
        """Drops a handle, and ignores an unknown handle."""
        self._objects.pop(handle if isinstance(handle, int) else address_of(handle), None)

    def clear(self) -> None:
        """Drops all handles of the table."""
        self._objects.clear()


def address_of(pointer: Any) -> int:
    """Returns the address in a cffi pointer as a number."""
    from litert.abi.definitions import ffi

    return int(ffi.cast("uintptr_t", pointer))
