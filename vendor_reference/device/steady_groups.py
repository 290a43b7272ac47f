"""Work groups that stay the same when shapes change.

Some drivers for CPUs compile a kernel again for each size of work group, which takes longer than most runs, and
choose another size for nearly every shape. Where a run tells the work sizes, the choice is made here, of two.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from litert.core.sizes import Expression, Size
from vendor_reference.device.loaded_devices import describe_device
from vendor_reference.drivers.driver import driver_of_device
from vendor_reference.executable.executable import KernelTask

_GROUPS = (16, 1)
"""Work items along the first dimension that a run tells: the first of them that divides."""

_MOST_ITEMS = 256


def needs_steady_groups(task: KernelTask, device: cl.Device) -> bool:
    """Whether the driver would choose anew for each shape, and compile."""
    is_told = any(isinstance(size, Expression) for size in task.global_size)
    if not is_told or task.local_size is not None or not device.type & cl.device_type.CPU:
        return False
    return driver_of_device(describe_device(device)).compiles_for_group_sizes


def choose_group(sizes: Sequence[Size], global_size: Sequence[int]) -> tuple[int, ...]:
    """The group for a run: whole dimensions that no shape decides about, and a part of the first that one does.

    Args:
      sizes: of the task.
      global_size: what they are in this run.
    """
    group, items = [1] * len(sizes), 1
    for index, size in enumerate(sizes):
        if isinstance(size, int) and items * size <= _MOST_ITEMS:
            group[index] = size
            items *= size
    for index, size in enumerate(sizes):
        if isinstance(size, Expression):
            fitting = (k for k in _GROUPS if global_size[index] % k == 0)
            group[index] = next(k for k in fitting if items * k <= _MOST_ITEMS or k == 1)
            break
    return tuple(group)
