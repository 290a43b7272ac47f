"""A function's part of DDR or CMX: one buffer, and the places in it."""

from __future__ import annotations

import pyopencl as cl

from vendor_reference.executable.format import ALIGNMENT


def spread_offset(offset: int, alignment: int) -> int:
    """Where a place in DDR lies on a device that wants places aligned.

    Args:
      offset: a multiple of `ALIGNMENT`.
      alignment: in bytes, a power of two; beyond `ALIGNMENT` all places are spread, and keep their distances.
    """
    return offset * max(1, alignment // ALIGNMENT)


class Arena:
    """Memory of one function, allocated once."""

    def __init__(self, context: cl.Context, device: cl.Device, size_bytes: int) -> None:
        self._alignment = device.mem_base_addr_align // 8
        self._buffer: cl.Buffer | None = None
        if size_bytes:
            size = spread_offset(size_bytes, self._alignment)
            self._buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
        self._places: dict[tuple[int, int], cl.Buffer] = {}

    def place(self, offset: int, size_bytes: int) -> cl.Buffer | None:
        """What lies at an offset; None for no bytes."""
        if self._buffer is None or not size_bytes:
            return None
        key = (offset, size_bytes)
        if key not in self._places:
            origin = spread_offset(offset, self._alignment)
            self._places[key] = self._buffer.get_sub_region(origin, size_bytes)
        return self._places[key]
