"""The OpenCL context of an open device, its subdevices, and the process that opened the device."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.group_order import ordering_option
from vendor_reference.device.opencl import describe_device
from vendor_reference.device.opencl_errors import opencl_error
from vendor_reference.drivers.device_choice import is_simulator

_MOST_PARTS = 64


class OpenClContext:
    """An open OpenCL device with its OpenCL context.

    Attributes:
      info: Names and versions of the device.
      cl_device: OpenCL device object.
      cl_context: OpenCL context object, which contains the device and its subdevices.
      ordering_option: Build option with which work groups of a launch can pass results to each other; None if work
        groups see only the results of earlier launches.
      in_place: Whether kernels can use aligned host memory directly, without a copy.
    """

    def __init__(self, device: cl.Device) -> None:
        """Creates the OpenCL context of a device."""
        self.info = describe_device(device)
        self.cl_device = device
        self._parts = _split(device)
        self.cl_context = cl.Context([device, *self._parts.values()])
        # Kernels on a CPU use host memory directly; other devices need copies. A simulator checks written memory.
        self.in_place = self.info.kind == "CPU" and not is_simulator(self.info)
        self.ordering_option = ordering_option(self.info, _atomic_capabilities(device))
        self._process = os.getpid()

    def create_queue(self, has_times: bool = False) -> cl.CommandQueue:
        """Returns a new in-order queue; with `has_times`, the queue's events record times."""
        if not has_times:
            return cl.CommandQueue(self.cl_context, self.cl_device)
        return cl.CommandQueue(
            self.cl_context, self.cl_device, cl.command_queue_properties.PROFILING_ENABLE
        )

    def create_part_queue(self, num_shaves: int) -> cl.CommandQueue | None:
        """Returns a queue for a subdevice that has one compute unit per shave; the queue's events record times.

        Returns None if `num_shaves` means all shaves (0 or the full number), or if the device cannot be split. In
        the latter case, the limit has no effect on runs, and only the report shows it.
        """
        part = self._parts.get(num_shaves)
        if part is None:
            return None
        return cl.CommandQueue(self.cl_context, part, cl.command_queue_properties.PROFILING_ENABLE)

    def is_home(self) -> bool:
        """Whether this process opened the device.

        A forked process cannot use the device, since OpenCL's threads are not forked.
        """
        return os.getpid() == self._process

    def check_home(self) -> None:
        """Raises an error in a forked process, in which a run on the device would never end."""
        if not self.is_home():
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                "this process was forked after the OpenCL device had been opened, so it cannot use the device",
                str(self.info),
                "Start processes with 'spawn' or 'forkserver', or load models only after the fork.",
            )

    @contextmanager
    def allocating(self, what: str) -> Iterator[None]:
        """Adds the device's memory sizes to the error if an allocation fails."""
        try:
            yield
        except cl.Error as error:
            limit = self.cl_device.max_mem_alloc_size
            hint = (
                f"The device has {self.info.memory_bytes} bytes of memory, and one buffer can have at most "
                f"{limit} bytes. Use a smaller model or smaller shapes."
            )
            raise opencl_error(error, f"{what}, device {self.info}", hint) from error


def _atomic_capabilities(device: cl.Device) -> int:
    """Returns a device's atomic memory capabilities; 0 before OpenCL 3, in which devices do not report them."""
    with suppress(cl.Error):
        return int(device.atomic_memory_capabilities)
    return 0


def _split(device: cl.Device) -> Mapping[int, cl.Device]:
    """Returns the subdevices by their number of compute units; empty if the device cannot be split."""
    kind = cl.device_partition_property
    if kind.BY_COUNTS not in device.partition_properties:  # type: ignore[operator]  # a list, in fact
        return {}
    parts = {}
    for units in range(1, min(device.max_compute_units, _MOST_PARTS + 1)):
        counts = [kind.BY_COUNTS, units, kind.BY_COUNTS_LIST_END]
        parts[units] = device.create_sub_devices(counts)[0]  # type: ignore[arg-type]
    return parts
