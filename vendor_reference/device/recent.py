"""A cache of limited size, which removes the least recently used values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """A cache of values by key that removes the least recently used value when it is full."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Returns the value of a key; if the value is missing, creates it with `make`."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = self._values[key] = make()
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return value
