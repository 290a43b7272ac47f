"""Detects kernels that access memory outside their tensors, or that read memory that they have not written.

The kernel under test runs again with other bytes in the surrounding memory; its results must not change. Each
tensor has a guard region before and after it, and outputs are filled with known bytes before a run. On a CPU,
local and private memory keep the bytes of earlier kernels; therefore, another kernel fills this memory first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from vendor_reference.authoring.device_call import DeviceCall, GuardedTensor, load_kernel, quiet
from vendor_reference.drivers.device_choice import choose_device, is_simulator

Array = np.ndarray[Any, np.dtype[Any]]

_CONTENT, _GUARDS, _DEVICE = (0xA5, 0x5A), (0x3C, 0xC3), (0x69, 0x96)
"""Bytes that fill memory before a run: tensors that the kernel writes, guards, and local and private memory."""

_FILL_KERNEL = """
#define CELLS 8192
__kernel void fill_memory(__global const uint* value, __global volatile uint* arrived) {
  __local volatile uint of_group[CELLS];
  volatile uint of_item[CELLS];
  for (uint i = 0; i < CELLS; ++i) of_group[i] = of_item[i] = value[0];
  // Waits for the other work items, so that each runs on a thread of its own; not for ever, as there may be fewer.
  atomic_inc(arrived);
  for (uint i = 0; i < (1 << 22) && atomic_add(arrived, 0) < get_global_size(0); ++i);
  arrived[1] = of_group[value[0] % CELLS] + of_item[value[0] % CELLS];
}
"""

_RACE = (
    "differs between two runs with equal inputs",
    ("the kernel has a race, or reads uninitialized memory"),
)

_OWN_CONTENT = (
    "the kernel reads elements that it has not written (in a .json description, "
    '"zero": true fills an output with zeros before the kernel runs)'
)


class Watched(NamedTuple):
    """A tensor's memory, its name in messages, and whether the kernel may write it."""

    memory: GuardedTensor
    name: str
    is_written: bool = False


class _Surrounding(NamedTuple):
    """Memory that results must not depend on.

    Attributes:
      fill: Function that sets each byte of the memory.
      fills: The usual fill byte, and the byte for a changed run.
      finding: Words about an output that depends on this memory: the symptom, and the reason.
    """

    fill: Callable[[int], None]
    fills: tuple[int, int]
    finding: tuple[str, str]


def find_faults(call: DeviceCall, tensors: Sequence[Watched], num_outputs: int) -> list[str]:
    """Runs a call three times; in the second run, the memory around its tensors has other bytes.

    If the results differ, the call runs once more for each part of the surrounding memory, and only this part has
    other bytes. These runs show on which part the results depend.

    Args:
      call: Call to run; its inputs must be set.
      tensors: All tensors that the call uses; the op's outputs come first.
      num_outputs: Number of the op's outputs.

    Returns:
      One sentence for each fault of the kernel.
    """
    inputs = [(tensor, tensor.memory.content()) for tensor in tensors if not tensor.is_written]
    with _device_memory() as device_memory:
        surroundings = [*_surroundings(tensors), *device_memory]
        faults = list(dict.fromkeys(_Runs(call, tensors, surroundings, num_outputs).find_faults()))
    changed = (tensor.name for tensor, before in inputs if tensor.memory.content() != before)
    return faults + [f"the kernel writes to {name}, which it may only read" for name in changed]


class _Runs:
    """Runs a call, and fills the memory around its tensors again before each run."""

    def __init__(
        self,
        call: DeviceCall,
        tensors: Sequence[Watched],
        surroundings: Sequence[_Surrounding],
        num_outputs: int,
    ) -> None:
        self._call = call
        self._tensors = tensors
        self._surroundings = surroundings
        self._num_outputs = num_outputs
        self._damages: list[str] = []

    def find_faults(self) -> Iterator[str]:
        first = self._run()
        with quiet():
            yield from self._compare(first)

    def _compare(self, first: Sequence[Array]) -> Iterator[str]:
        second = self._run(*self._surroundings)
        unwritten = [
            _holds(old, _CONTENT[0]) & _holds(new, _CONTENT[1])
            if old.shape == new.shape
            else np.zeros(old.size, bool)
            for old, new in zip(first, second, strict=True)
        ]

        def differences(results: Sequence[Array], finding: tuple[str, str]) -> list[str]:
            what, why = finding
            found = []
            for index, (old, new, left) in enumerate(zip(first, results, unwritten, strict=True)):
                if old.shape != new.shape:
                    found.append(
                        f"the shape of output {index} {what}: it is {list(old.shape)} or "
                        f"{list(new.shape)}, so {why}"
                    )
                elif (differs := np.any(_bytes(old) != _bytes(new), axis=1) & ~left).any():
                    number = f"in {int(differs.sum())} of {old.size} elements"
                    place = _first_place(differs, old)
                    found.append(
                        f"output {index} {what} {number}, the first at index {place}, so {why}"
                    )
            return found

        found = differences(self._run(), _RACE)
        if not found and differences(second, _RACE):
            for surrounding in self._surroundings:
                found += differences(self._run(surrounding), surrounding.finding)
            # Without a change, the first results must repeat; otherwise the changed memory is not
            # proven to be the cause.
            found = differences(self._run(), _RACE) or found or differences(second, _RACE)
        yield from self._damages
        for index, (left, array) in enumerate(zip(unwritten, first, strict=True)):
            if left.any():
                count = int(left.sum())
                number = f"{count} of {array.size} elements of output {index}"
                yield f"the kernel never writes {number}, the first at index {_first_place(left, array)}"
        yield from found

    def _run(self, *changed: _Surrounding) -> list[Array]:
        """Runs the call once, and returns the outputs."""
        for surrounding in self._surroundings:
            surrounding.fill(surrounding.fills[surrounding in changed])
        self._call.run()
        self._damages += _damages(self._tensors)
        return [self._call.result(index).copy() for index in range(self._num_outputs)]


def _surroundings(tensors: Sequence[Watched]) -> Iterator[_Surrounding]:
    for memory, name, is_written in tensors:
        finding = f"depends on the bytes around {name}", f"the kernel reads outside {name}"
        yield _Surrounding(memory.fill_guards, _GUARDS, finding)
        if is_written:
            what = f"depends on the old content of {name}"
            finding = what, _OWN_CONTENT
            yield _Surrounding(memory.fill, _CONTENT, finding)


@contextmanager
def _device_memory() -> Iterator[Sequence[_Surrounding]]:
    """Yields the local and private memory of a CPU; nothing for other devices.

    Simulators have checks of their own.
    """
    device = choose_device().info
    if device.kind != "CPU" or is_simulator(device):
        yield []
        return
    value, arrived = (RankedTensorType.of(ElementType.UINT32, (size,)) for size in (1, 2))
    # Fills all threads' memory, then the memory of the thread that a small kernel gets, which may
    # be another.
    launches = (device.compute_units, 1)
    with load_kernel(_FILL_KERNEL, "fill_memory", [value], [arrived], launches, [1]) as call:

        def fill(byte: int) -> None:
            call.inputs[0].fill(byte)
            call.outputs[0].fill(0)
            call.run()

        what = "depends on the old content of local or private memory"
        yield [
            _Surrounding(fill, _DEVICE, (what, "the kernel reads this memory before it writes it"))
        ]


def _damages(tensors: Sequence[Watched]) -> Iterator[str]:
    for memory, name, _ in tensors:
        place = memory.damage()
        if place is not None:
            offset = count_text(abs(place), "byte")
            side = f"{offset} before" if place < 0 else f"{offset} after the start of"
            size = count_text(memory.tensor_type.size_bytes, "byte")
            yield f"the kernel writes outside its memory, {side} {name}, which is only {size} long"


def _bytes(array: Array) -> Array:
    """Returns the bytes of each element as a row."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.dtype.itemsize)


def _holds(array: Array, byte: int) -> Array:
    """Returns which elements consist of that byte alone."""
    found: Array = np.all(_bytes(array) == byte, axis=1)
    return found


def _first_place(found: Array, array: Array) -> list[int]:
    return [int(i) for i in np.unravel_index(int(np.argmax(found)), array.shape)]
