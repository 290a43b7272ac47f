"""Checks the commands of a command stream before a run: each command may access only the memory of its arguments.

The firmware performs the check (function `check_X` for instruction `X`), since only the firmware knows which
memory an instruction reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
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
    """Checks the commands of one command stream on the device."""

    def __init__(
        self,
        context: OpenClContext,
        queue: cl.CommandQueue,
        firmware: DeviceProgram,
        constants: cl.Buffer | None,
        stream: CommandStream,
        open_places: Set[Argument],
        find_size: Callable[[Argument, Shapes], int],
        name_command: Callable[[int], str],
    ) -> None:
        """Prepares the check of a command stream; the method `check` performs it.

        Args:
          context: OpenCL context of the device.
          queue: OpenCL queue for the kernel that checks the commands.
          firmware: Firmware program, which contains the kernel that checks commands.
          constants: Buffer with all constants of the function; None if there are none.
          stream: Command stream to check.
          open_places: Arguments whose size is known only in a run.
          find_size: Function that returns the size of an argument for given shapes, in bytes.
          name_command: Function that returns the name of a command's op, given the command's number.
        """
        self._queue = queue
        self._stream = stream
        self._name_command = name_command
        self._find_size = find_size
        found = {
            p: 0 if p in open_places else find_size(p, _no_shape) for p in set(stream.places) if p
        }
        fixed = [found[place] if place else 0 for place in stream.places]
        self._sizes = np.array(fixed or [0], np.uint64)
        self._open = [(i, p) for i, p in enumerate(stream.places) if p and p in open_places]
        flags = cl.mem_flags.READ_WRITE
        self._wrong = np.zeros(2, np.uint32)
        arrays = (stream.words, self._sizes, self._wrong)
        self._buffers = [cl.Buffer(context.cl_context, flags, array.nbytes) for array in arrays]
        self._kernel = firmware.create_kernel(CHECK_ENTRY)
        words, sizes, wrong = self._buffers
        self._kernel.set_args(words, np.uint32(len(stream.offsets)), sizes, constants, wrong)

    def check(self, words: Words, shapes: Shapes) -> None:
        """Checks the words of the command stream for the given shapes.

        Raises:
          LiteRtError: SERIALIZATION, if a command is not valid; the error names op, instruction and argument.
        """
        for number, place in self._open:
            self._sizes[number] = self._find_size(place, shapes)
        queue, (given, sizes, wrong) = self._queue, self._buffers
        cl.enqueue_copy(queue, given, words, is_blocking=False)
        cl.enqueue_copy(queue, sizes, self._sizes, is_blocking=False)
        enqueue_nd_range_kernel(queue, self._kernel, (1,), (1,))
        cl.enqueue_copy(queue, self._wrong, wrong, is_blocking=True)
        if self._wrong[0]:
            self._refuse(int(self._wrong[0]) - 1, int(self._wrong[1]), words)

    def _refuse(self, number: int, found: int, words: Words) -> NoReturn:
        known = list(instruction_set().values())
        instructions = [known[words[offset]] for offset in self._stream.offsets]
        instruction = instructions[number]
        what = f"instruction '{instruction.name}' in the byte code has fields with invalid values"
        if found != WRONG_FIELDS:
            place = instruction.places[found - 1]
            size = self._sizes[sum(len(i.places) for i in instructions[:number]) + found - 1]
            what = (
                f"instruction '{instruction.name}' in the byte code accesses memory outside its operand "
                f"'{place}', which has {size} bytes"
            )
        raise LiteRtError(
            Status.SERIALIZATION,
            what,
            self._name_command(number),
            "Compile the model again with apply_plugin.",
        )


def _no_shape(number: int) -> Sequence[int]:
    raise AssertionError(f"a fixed size depends on shape {number}")
