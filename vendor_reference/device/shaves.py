"""Tasks on fewer shaves than the device has: a compute unit stands for one, where the device can be split."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import pyopencl as cl

from vendor_reference.device.loaded_task import KernelLaunch

_MOST_PARTS = 64


class Shaves:
    """The parts of a device; none, where it cannot be split: then the number of shaves is in the report only."""

    def __init__(self, device: cl.Device) -> None:
        """Splits the device."""
        kind = cl.device_partition_property
        self._parts: dict[int, cl.Device] = {}
        if kind.BY_COUNTS in device.partition_properties:  # type: ignore[operator]  # a list, in fact
            for units in range(1, min(device.max_compute_units, _MOST_PARTS + 1)):
                counts = [kind.BY_COUNTS, units, kind.BY_COUNTS_LIST_END]
                self._parts[units] = device.create_sub_devices(counts)[0]  # type: ignore[arg-type]

    @property
    def devices(self) -> list[cl.Device]:
        """What a context must have beside the device itself."""
        return list(self._parts.values())

    def find_part(self, num_shaves: int) -> cl.Device | None:
        """The part with so many compute units; None for all of them: 0, or as many as there are."""
        return self._parts.get(num_shaves)


def most_groups(launch: KernelLaunch) -> int:
    """How many work groups a launch has at the most, each of which one compute unit runs."""
    _, global_size, local_size = launch
    return prod(global_size) // prod(local_size or ())


@dataclass(frozen=True, slots=True)
class PartLaunch:
    """The launch of a task on a part of the device; to hand over to its queue and back costs 8 us."""

    launch: KernelLaunch
    part: cl.CommandQueue

    def run(self, queue: cl.CommandQueue) -> cl.Event:
        """Enqueues it behind what is in the device's own queue, which goes on when it has ended."""
        before = cl.enqueue_marker(queue)
        queue.flush()
        kernel, global_size, local_size = self.launch
        event = cl.enqueue_nd_range_kernel(
            self.part, kernel, global_size, local_size, wait_for=[before]
        )
        self.part.flush()
        cl.enqueue_barrier(queue, wait_for=[event])
        return event
