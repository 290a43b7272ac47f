"""Orders and packs all constants of a function's library layers, and copies the constants to one buffer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyopencl as cl

from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.opencl_memory import aligned_memory, write_constant
from vendor_reference.executable.executable import Constant, align


class LayerConstants:
    """Constants of library layers on the device.

    Attributes:
      buffer: Buffer with all constants; None if the total size of the constants is 0.
      offsets: Offset of each constant in the buffer, in bytes, by the constant's index.
      sizes: Size of each constant in the form that kernels read, in bytes, by the constant's index.
    """

    def __init__(self, context: OpenClContext, constants: Mapping[int, Constant]) -> None:
        """Dequantizes, reorders and packs the constants, and copies them to the device."""
        self.offsets: dict[int, int] = {}
        self.sizes = {index: constant.size_bytes for index, constant in constants.items()}
        self.buffer: cl.Buffer | None = None
        size = 0
        for index in constants:
            self.offsets[index] = size
            size += align(self.sizes[index])
        if not size:
            return
        memory = aligned_memory((size,), np.dtype(np.uint8))
        for index, constant in constants.items():
            write_constant(constant, memory[self.offsets[index] :][: self.sizes[index]])
        use = cl.mem_flags.USE_HOST_PTR if context.in_place else cl.mem_flags.COPY_HOST_PTR
        flags = cl.mem_flags.READ_ONLY | use
        with context.allocating(f"{size} bytes of constants"):
            self.buffer = cl.Buffer(context.cl_context, flags, hostbuf=memory)
