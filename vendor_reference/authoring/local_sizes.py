"""Local sizes that are worth a try, and when one is clearly better than another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, log2, prod
from statistics import median

LocalSize = tuple[int, ...]
"""One number for each dimension; empty is the driver's choice."""

_LIKELY_ITEMS = 64
_LEAST_GAIN = 0.05
_LEAST_GAIN_S = 1e-6
"""Less is lost in what a launch costs, and in how well a device's clock tells."""
_LEAST_WINS = 0.75


def find_candidates(
    global_sizes: Sequence[Sequence[int]], most_items: int, most: int
) -> list[LocalSize]:
    """Local sizes that divide all global sizes, the likely ones first; the driver's choice is the first.

    Args:
      global_sizes: of all ops that the layer is for; of as many dimensions.
      most_items: in a group, that the device takes.
      most: how many candidates there may be.
    """
    common = [gcd(*sizes) for sizes in zip(*global_sizes, strict=True)]
    divisors = [_divisors(size, most_items) for size in common]
    groups = [group for group in product(*divisors) if prod(group) <= most_items]
    groups.sort(key=lambda group: (abs(log2(prod(group) / _LIKELY_ITEMS)), [-n for n in group]))
    return [(), *groups[: most - 1]]


def is_clearly_better(new_s: Sequence[float], old_s: Sequence[float]) -> bool:
    """Whether times are better than others, which were taken in turn with them, and not by chance."""
    wins = sum(new < old for new, old in zip(new_s, old_s, strict=True))
    gain_s = median(old_s) - median(new_s)
    is_gain = gain_s >= max(_LEAST_GAIN * median(old_s), _LEAST_GAIN_S)
    return is_gain and wins >= _LEAST_WINS * len(new_s)


def local_text(size: Sequence[int]) -> str:
    """`8 x 4`, or who chooses."""
    return " x ".join(map(str, size)) if size else "driver's"


def _divisors(size: int, most: int) -> list[int]:
    """Powers of two that divide a size, and the size itself."""
    powers = (1 << bit for bit in range(size.bit_length()))
    found = {number for number in (*powers, size) if 0 < number <= most and size % number == 0}
    return sorted(found)
