"""Runs firmware commands on a device with NumPy arrays, without a compiler."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import numpy as np
import pyopencl as cl

from litert.core.sizes import Size
from vendor_reference.device.opencl_device import OpenClDevice, shared_device
from vendor_reference.firmware.instructions import instruction_set
from vendor_reference.firmware.program import (
    ENTRY,
    NOWHERE,
    PLACE_UNIT,
    SCRATCH_REGION,
    FirmwareTuning,
    count_counters,
    firmware_text,
)
from vendor_reference.programs.program_text import ProgramText

Array = np.ndarray[Any, np.dtype[Any]]
Command = tuple[str, Mapping[str, Any]]
"""The name of an instruction, and its fields; places are arrays, which the command reads or writes, or missing."""


def clamp_fields(size: Size, low: float, high: float) -> dict[str, Any]:
    """Returns the fields, except places, of a Pool with windows of one pixel, which clamps `size` floats."""
    images = {
        name: number
        for image in ("input", "result")
        for name, number in {
            f"{image}_height": size,
            f"{image}_width": 1,
            f"{image}_first": 0,
            f"{image}_pixel": 1,
            f"{image}_row": 1,
            f"{image}_batch": size,
        }.items()
    }
    ones = ("batches", "channels", "window_height", "window_width", "stride_height", "stride_width")
    zeros = ("top", "left", "is_mean", "activation")
    return {**images, **dict.fromkeys(ones, 1), **dict.fromkeys(zeros, 0), "low": low, "high": high}


@dataclass
class Lab:
    """A device with the firmware.

    Example:
      lab = Lab()
      y = np.zeros_like(x)
      lab.run([("Pool", {"input": x, "result": y, **clamp_fields(x.size, 0, 6)})], workers=2)
    """

    tuning: FirmwareTuning = field(default_factory=FirmwareTuning)
    options: str = ""
    device: OpenClDevice = field(default_factory=lambda: shared_device(""))

    def run(
        self, commands: Sequence[Command], workers: int = 2, repeats: int = 1
    ) -> Sequence[float]:
        """Runs commands in order and writes the results to their arrays; returns the seconds of each repeat."""
        arrays = _Arrays()
        stream: list[int] = []
        numbers = {name: number for number, name in enumerate(instruction_set())}
        for name, fields in commands:
            instruction = instruction_set()[name]
            places = {n: fields[n] for n in instruction.places if fields.get(n) is not None}
            given = {n: v for n, v in fields.items() if n not in instruction.places}
            words: list[int] = []
            flat = iter(instruction.words(given))
            for one in instruction.fields:
                if one.kind == "Place":
                    next(flat)
                    words += arrays.place(places[one.name]) if one.name in places else (NOWHERE, 0)
                else:
                    words += [cast("int", next(flat)) for _ in range(one.count)]
            stream += [numbers[name], len(words) + 2, *words]
        return self._launch(arrays, np.array(stream, np.uint32), len(commands), workers, repeats)

    def _launch(
        self, arrays: _Arrays, stream: Array, num_commands: int, workers: int, repeats: int
    ) -> Sequence[float]:
        context, flags = self.device.cl_context, cl.mem_flags
        queue = self.device.create_queue()
        memory = arrays.memory()
        buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=memory)
        commands = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=stream)
        zeros = np.zeros(count_counters(num_commands, workers), np.uint32)
        counters = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=zeros)
        kernel = _program(self).create_kernel(ENTRY)
        scratch = cl.Buffer(context, flags.READ_WRITE, 4 * self.tuning.scratch * workers)
        regions = [buffer, *[None] * (SCRATCH_REGION - 1), scratch]
        kernel.set_args(commands, np.uint32(0), np.uint32(num_commands), counters, *regions)
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            cl.enqueue_nd_range_kernel(queue, kernel, (workers,), (1,))
            queue.finish()
            seconds.append(time.perf_counter() - begin)
        cl.enqueue_copy(queue, memory, buffer)
        arrays.read(memory)
        return seconds


@dataclass
class _Arrays:
    """Arrays in one memory region; an array that is passed twice has only one place."""

    places: dict[int, tuple[Array, int]] = field(default_factory=dict)
    size: int = 0

    def place(self, array: Array) -> tuple[int, int]:
        assert array.flags.c_contiguous
        if id(array) not in self.places:
            self.places[id(array)] = (array, self.size)
            self.size += -(-array.nbytes // PLACE_UNIT) * PLACE_UNIT
        return 0, self.places[id(array)][1] // PLACE_UNIT

    def memory(self) -> Array:
        memory = np.zeros(max(self.size, PLACE_UNIT), np.uint8)
        for array, offset in self.places.values():
            memory[offset : offset + array.nbytes] = np.frombuffer(array, np.uint8)
        return memory

    def read(self, memory: Array) -> None:
        for array, offset in self.places.values():
            if array.flags.writeable:
                part = memory[offset : offset + array.nbytes]
                array[...] = part.view(array.dtype).reshape(array.shape)


def _program(lab: Lab) -> Any:
    return _build(lab.device, ProgramText("firmware", firmware_text(lab.tuning), lab.options))


@cache
def _build(device: OpenClDevice, text: ProgramText) -> Any:
    return device.builder.build([text])[0]
