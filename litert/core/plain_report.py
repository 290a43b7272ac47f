"""Reports: dataclasses that commands print for machines, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar


class PlainReport:
    """A dataclass that JSON has all of."""

    __slots__ = ()

    answers: ClassVar[Sequence[str]] = ()
    """Properties that JSON has beyond the fields."""

    def to_values(self) -> dict[str, Any]:
        """The fields and the answers, by name."""
        fields: Any = self
        return asdict(fields) | {name: getattr(self, name) for name in self.answers}
