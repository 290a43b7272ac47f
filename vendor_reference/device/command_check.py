"""Checks commands before they run: each must stay within the memory of its places, whatever its fields are.

The firmware does that (`check_X` beside each instruction): it alone knows what an instruction reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import pyopencl as cl
from pyopencl import enqueue_nd_range_kernel

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes
from litert.core.status import Status
from vendor_reference.device.command_stream import CommandStream, Words
from vendor_reference.device.opencl_context import OpenClContext
from vendor_reference.device.program_builder import DeviceProgram
from vendor_reference.executable.executable import Argument
from vendor_reference.firmware.instructions import instruction_set
from vendor_reference.firmware.program import CHECK_ENTRY, WRONG_FIELDS


class CommandCheck:
    """The check of one stream."""

    def __init__(
        self,
        context: OpenClContext,
        queue: cl.CommandQueue,
        firmware: DeviceProgram,
        constants: cl.Buffer | None,
        stream: CommandStream,
        find_size: Callable[[Argument, Shapes], int],
        name_command: Callable[[int], str],
    ) -> None:
        """Checks nothing yet.

        `find_size` says how many bytes an argument has; `name_command` names a command's op, by its number.
        """
        self._cl_context = context.cl_context
        self._queue = queue
        self._kernel = firmware.create_kernel(CHECK_ENTRY)
        self._constants = constants
        self._stream = stream
        self._find_size = find_size
        self._name_command = name_command

    def check(self, words: Words, shapes: Shapes) -> None:
        """Refuses words of the stream, for these shapes: SERIALIZATION, which names op, instruction and place."""
        places = self._stream.places
        found = {place: self._find_size(place, shapes) for place in set(places) if place}
        sizes = np.array([found[place] if place else 0 for place in places] or [0], np.uint64)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        given = [cl.Buffer(self._cl_context, flags, hostbuf=array) for array in (words, sizes)]
        wrong = np.zeros(2, np.uint32)
        result = cl.Buffer(self._cl_context, cl.mem_flags.WRITE_ONLY, wrong.nbytes)
        count = np.uint32(len(self._stream.offsets))
        self._kernel.set_args(given[0], count, given[1], self._constants, result)
        enqueue_nd_range_kernel(self._queue, self._kernel, (1,), (1,))
        cl.enqueue_copy(self._queue, wrong, result, is_blocking=True)
        if wrong[0]:
            self._refuse(int(wrong[0]) - 1, int(wrong[1]), words, sizes.tolist())

    def _refuse(self, number: int, found: int, words: Words, sizes: Sequence[int]) -> NoReturn:
        known = list(instruction_set().values())
        instructions = [known[words[offset]] for offset in self._stream.offsets]
        instruction = instructions[number]
        what = f"instruction '{instruction.name}' has fields that no run can have"
        if found != WRONG_FIELDS:
            place = instruction.places[found - 1]
            size = sizes[sum(len(i.places) for i in instructions[:number]) + found - 1]
            what = f"instruction '{instruction.name}' leaves the {size} bytes of its '{place}'"
        raise LiteRtError(
            Status.SERIALIZATION,
            what,
            f"byte code, {self._name_command(number)}",
            "Compile the model again with apply_plugin.",
        )
