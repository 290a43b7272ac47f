"""Base class of reports, which commands can also print as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar


class PlainReport:
    """Base class of dataclasses whose fields are printed as JSON, together with the properties in `answers`."""

    __slots__ = ()

    answers: ClassVar[Sequence[str]] = ()
    """Names of the properties that the JSON output contains in addition to the fields."""

    def to_values(self) -> dict[str, Any]:
        """Returns the values of the fields and of the properties in `answers`, by name."""
        fields: Any = self
        return asdict(fields) | {name: getattr(self, name) for name in self.answers}
