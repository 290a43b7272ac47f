"""Ops that take dimensions away, or add some: whether what is left is in order in the other layout too."""

from __future__ import annotations

from collections.abc import Collection

from compiler_plugin.transformations.layout_change.layout import LayoutChange, Permutation


def layouts_without(
    change: LayoutChange, rank: int, gone: Collection[int]
) -> tuple[Permutation | None, Permutation | None] | None:
    """The layouts of a tensor before and after dimensions are taken out of it.

    `[N, H, W, C]` without H and W is `[N, C]` in either layout; without N it is `[H, W, C]` or `[C, H, W]`, and
    the one cannot stand for the other.

    Args:
      change: to the other layout.
      rank: of the tensor before.
      gone: the dimensions that go.

    Returns:
      Of the tensor before and after; None is an order that stays. None where the op cannot have another layout.
    """
    before = change.image(rank)
    after = change.image(rank - len(gone))
    if before is None and after is None:
        return None
    kept = [axis for axis in range(rank) if axis not in gone]
    left = [axis for axis in before or range(rank) if axis not in gone]
    wanted = kept if after is None else [kept[axis] for axis in after]
    return (before, after) if left == wanted else None
