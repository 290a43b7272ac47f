"""How reports spell sizes, names and digests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


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
