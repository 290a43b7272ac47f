"""Handles: what C code holds in place of the host's objects.

A handle is a number that means nothing to anybody else. What a vendor passes back is looked up, never followed, so
that a wrong one is an error and not a crash.
"""

from __future__ import annotations

import itertools
from typing import Any, TypeVar

from litert.core.errors import LiteRtError
from litert.core.status import Status

STEP = 16
"""From a handle to the one that is made next, in any table."""

_Object = TypeVar("_Object")


# Of all tables together: a handle of one is unknown to the others. No address of a process looks like this.
_numbers = itertools.count(0x4C52_0000_0000_0010, STEP)


class Handles:
    """The objects that C code has handles of; each is kept alive until its handle is dropped."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def put(self, value: object) -> int:
        """Makes a handle of an object: never 0, and never one that was given before."""
        handle = next(_numbers)
        self._objects[handle] = value
        return handle

    def get(self, handle: Any, kind: type[_Object]) -> _Object:
        """The object of a kind behind a handle, which is a number, or a pointer of cffi's.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for one that is NULL, never given, dropped, or of another kind.
        """
        found = self._objects.get(handle)
        if found.__class__ is kind:  # mostly, and some plugins ask a million times
            return found
        number = handle if isinstance(handle, int) else address_of(handle)
        found = self._objects.get(number)
        if found is not None and isinstance(found, kind):
            return found
        if not number:
            what = f"a NULL pointer, where a handle of a {kind.__name__} belongs"
        elif found is None:
            what = f"{number:#x} is no handle of a {kind.__name__}: never given, or released"
        else:
            what = f"a handle of a {type(found).__name__}, where one of a {kind.__name__} belongs"
        raise LiteRtError(Status.INVALID_ARGUMENT, what)

    def drop(self, handle: Any) -> None:
        """Forgets a handle; one that is not known is fine."""
        self._objects.pop(handle if isinstance(handle, int) else address_of(handle), None)

    def clear(self) -> None:
        """Forgets all."""
        self._objects.clear()


def address_of(pointer: Any) -> int:
    """A pointer of cffi's as a number."""
    from litert.abi.definitions import ffi

    return int(ffi.cast("uintptr_t", pointer))
