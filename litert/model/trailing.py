"""Bytes behind everything that a file points at: the ZIP of associated files that TFLite metadata appends."""

from __future__ import annotations

from litert.model.flatbuffer import Source


def find_trailing(source: Source, root: int, data_end: int) -> tuple[int, int] | None:
    """Where the trailing bytes start, and how many they are; None where there are none."""
    return None
