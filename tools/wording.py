"""How reports spell sizes, names, counts and JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping


def size_text(size: int) -> str:
    """`312 bytes`, `1.5 KiB`, `2.0 GiB`."""
    if size < 1024:
        return count_text(size, "byte")
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def count_text(number: int, noun: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def name_text(name: str) -> str:
    """A name from a file: as it is, or with escapes for what would not print."""
    return name if name.isprintable() else ascii(name)[1:-1]


def counts_text(names: Iterable[str]) -> str:
    """`3 RELU, 1 ADD`: the most frequent first."""
    counts = Counter(names).most_common()
    return ", ".join(f"{count} {name_text(name)}" for name, count in counts)


def json_text(value: object) -> str:
    """A report as JSON; numbers that JSON has not are null."""
    return json.dumps(_plain(value), indent=1, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
