"""Proposes local sizes to try, and decides when one local size is clearly better than another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, log2, prod
from statistics import median

LocalSize = tuple[int, ...]
"""A local work size: one number for each dimension; an empty tuple lets the driver choose."""

_LIKELY_ITEMS = 64
_LEAST_GAIN = 0.05
_LEAST_GAIN_S = 1e-6
"""Minimum gain, in seconds.

Smaller gains are insignificant compared to the cost of a launch and the precision of a device's clock.
"""
_LEAST_WINS = 0.75


def find_candidates(
    global_sizes: Sequence[Sequence[int]], most_items: int, most: int
) -> list[LocalSize]:
    """Returns local sizes that divide all global sizes.

    The driver's choice comes first, then the most promising sizes.

    Args:
      global_sizes: Global sizes of all ops that the layer is for; all global sizes must have the same number of
        dimensions.
      most_items: Maximum number of work items that the device supports in a work group.
      most: Maximum number of local sizes to return.
    """
    common = [gcd(*sizes) for sizes in zip(*global_sizes, strict=True)]
    divisors = [_divisors(size, most_items) for size in common]
    groups = [group for group in product(*divisors) if prod(group) <= most_items]
    groups.sort(key=lambda group: (abs(log2(prod(group) / _LIKELY_ITEMS)), [-n for n in group]))
    return [(), *groups[: most - 1]]


def is_clearly_better(new_s: Sequence[float], old_s: Sequence[float]) -> bool:
    """Returns whether the new times are significantly shorter than the old times.

    Old and new runs must have been measured alternately.
    """
    wins = sum(new < old for new, old in zip(new_s, old_s, strict=True))
    gain_s = median(old_s) - median(new_s)
    is_gain = gain_s >= max(_LEAST_GAIN * median(old_s), _LEAST_GAIN_S)
    return is_gain and wins >= _LEAST_WINS * len(new_s)


def local_text(size: Sequence[int]) -> str:
    """Returns a local size as text, such as `8 x 4`; `driver's` if the driver chooses."""
    return " x ".join(map(str, size)) if size else "driver's"


def _divisors(size: int, most: int) -> list[int]:
    """Returns the powers of two that divide a size, and the size itself."""
    powers = (1 << bit for bit in range(size.bit_length()))
    found = {number for number in (*powers, size) if 0 < number <= most and size % number == 0}
    return sorted(found)
