"""Assembles layer tasks to the firmware's command stream: for each command its number, its size and its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes, Size, evaluate
from litert.core.status import Status
from vendor_reference.device.function_memory import Slot, find_slot
from vendor_reference.executable.executable import Argument, Executable, LayerTask, Task
from vendor_reference.firmware.instructions import instruction_set
from vendor_reference.firmware.program import NOWHERE

Place: TypeAlias = tuple[int, int]
"""A region, and an offset in it, in units."""

_MOST_WORD = 2**32 - 1


def find_layer_runs(tasks: Sequence[Task], most_slots: int) -> Mapping[int, Sequence[LayerTask]]:
    """Layers that follow each other, by the index of the first: one launch can name so many inputs and outputs."""
    runs: dict[int, list[LayerTask]] = {}
    for is_layer, group in groupby(enumerate(tasks), lambda item: isinstance(item[1], LayerTask)):
        slots: set[Slot] = set()
        run: list[LayerTask] = []
        for index, task in group if is_layer else ():
            assert isinstance(task, LayerTask)
            own = slots_of([task])
            if not run or len(slots | own) > most_slots:
                run, slots = [], set()
                runs[index] = run
            run.append(task)
            slots |= own
    return runs


def slots_of(tasks: Sequence[LayerTask]) -> set[Slot]:
    """The inputs and outputs of the function that some tasks use."""
    return {slot for task in tasks for a in task.arguments if (slot := find_slot(a))}


def check_instructions(executable: Executable) -> None:
    """Refuses an executable whose instructions this firmware has not, or has with other fields."""
    known = instruction_set()
    for instruction in executable.instructions:
        if known.get(instruction.name) != instruction:
            raise LiteRtError(
                Status.INCOMPATIBLE_BYTE_CODE_VERSION,
                f"the firmware here has no instruction '{instruction.name}' with these fields",
                "byte code",
                "Compile the model again with apply_plugin.",
            )


@dataclass(frozen=True, slots=True)
class CommandStream:
    """The commands of some tasks.

    Attributes:
      words: of 32 bits; those that a run tells are 0.
      told: sizes that a run tells, by the word that they go to.
      offsets: of each task's first word.
      counts: of each task's commands.
    """

    words: np.ndarray[Any, np.dtype[np.uint32]]
    told: Mapping[int, Size]
    offsets: Sequence[int]
    counts: Sequence[int]

    def tell(self, shapes: Shapes, where: str) -> None:
        """Puts the sizes in that depend on shapes."""
        for index, size in self.told.items():
            value = evaluate(size, shapes, where)
            if value > _MOST_WORD:
                what = f"a size is {value}, the most is {_MOST_WORD}"
                raise LiteRtError(Status.INVALID_ARGUMENT, what, where)
            self.words[index] = value


def assemble(tasks: Sequence[LayerTask], find_place: Callable[[Argument], Place]) -> CommandStream:
    """The stream of tasks whose instructions have been checked; `find_place` says where an argument lies."""
    numbers = {name: number for number, name in enumerate(instruction_set())}
    words: list[int] = []
    told: dict[int, Size] = {}
    offsets: list[int] = []
    for task in tasks:
        offsets.append(len(words))
        found = [find_place(argument) for argument in task.arguments]
        for command in task.commands:
            instruction = instruction_set()[command.instruction]
            size = 2 + instruction.num_words + len(instruction.places)
            words += [numbers[command.instruction], size]
            places = set(instruction.place_words)
            for index, word in enumerate(command.words):
                if index in places:
                    assert isinstance(word, int)
                    words += found[word - 1] if word else (NOWHERE, 0)
                elif isinstance(word, int):
                    words.append(word)
                else:
                    told[len(words)] = word
                    words.append(0)
    counts = [len(task.commands) for task in tasks]
    return CommandStream(np.array(words, np.uint32), told, offsets, counts)
