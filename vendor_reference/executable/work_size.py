"""How many work items a task has in a run, and in which groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.core.errors import LiteRtError
from litert.core.sizes import MOST, Shapes, Size, evaluate
from litert.core.status import Status


def work_size(
    global_size: Sequence[Size], local_size: Sequence[Size] | None, shapes: Shapes, where: str
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Global and local size in numbers; without a local one the driver chooses.

    Args:
      global_size: 1 to 3 sizes.
      local_size: as many, or None.
      shapes: as they are in this run.
      where: kernel and op, for messages.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a size has no value, a local one is 0 or does not divide, or there are too
        many work items.
    """
    items = tuple(evaluate(size, shapes, where) for size in global_size)
    if prod(items) > MOST:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"global size {list(items)} are too many work items", where
        )
    if local_size is None:
        return items, None
    group = tuple(evaluate(size, shapes, where) for size in local_size)
    if any(k == 0 or g % k for g, k in zip(items, group, strict=True)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"local size {list(group)} does not divide global size {list(items)}",
            where,
            "Round the global size up, as in ((X+15)/16)*16, and let the kernel check its index.",
        )
    return items, group
