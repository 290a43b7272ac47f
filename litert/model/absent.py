"""Empty values that a file leaves out, where the schema tells that from a vector or string without elements.

They are as empty as any other: only the writer looks at their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final


class AbsentText(str):
    """A string that is not there."""

    __slots__ = ()


class AbsentVector(tuple[Any, ...]):
    """A vector that is not there."""

    __slots__ = ()


class AbsentList(list[Any]):
    """A vector that is not there, until something is appended."""

    __slots__ = ()


NO_TEXT: Final = AbsentText()
NO_VECTOR: Final = AbsentVector()


def is_absent(value: Sequence[object]) -> bool:
    """Whether a value is left out of the file."""
    return not value and isinstance(value, AbsentText | AbsentVector | AbsentList)
