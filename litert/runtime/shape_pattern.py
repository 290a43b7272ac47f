"""Shapes in which -1 stands for any dimension."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.core.element_type import ElementType


def is_of_pattern(shape: Sequence[int], pattern: Sequence[int]) -> bool:
    """Whether a shape is of a pattern; dimensions are at least 0."""
    return len(shape) == len(pattern) and all(
        d >= 0 and p in (-1, d) for d, p in zip(shape, pattern, strict=True)
    )


def largest_shape(
    pattern: Sequence[int], size_bytes: int, element_type: ElementType
) -> tuple[int, ...]:
    """A shape of a pattern that fills a buffer: the first unknown dimension takes what there is."""
    known_bits = element_type.bits * prod(d for d in pattern if d >= 0)
    most = size_bytes * 8 // known_bits if known_bits else 0
    unknown = [i for i, d in enumerate(pattern) if d < 0]
    return tuple(d if d >= 0 else most if i == unknown[0] else 1 for i, d in enumerate(pattern))
