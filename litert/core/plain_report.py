"""Base of reports: dataclasses that commands also print as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar


class PlainReport:
    """A dataclass whose fields and listed properties appear in JSON."""

    __slots__ = ()

    answers: ClassVar[Sequence[str]] = ()
    """Names of the properties that JSON contains besides the fields."""

    def to_values(self) -> dict[str, Any]:
        """Returns the fields and the listed properties, by name."""
        fields: Any = self
        return asdict(fields) | {name: getattr(self, name) for name in self.answers}
