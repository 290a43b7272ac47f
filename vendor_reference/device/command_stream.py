"""Assembles layer tasks into the firmware's command stream. Each command has a number, a size and fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, NoReturn, TypeAlias

import numpy as np

from litert.core.errors import LiteRtError
from litert.core.sizes import Shapes, Size, evaluate, shapes_in
from litert.core.status import Status
from vendor_reference.device.function_memory import Slot, find_slot
from vendor_reference.device.size_program import compile_sizes
from vendor_reference.executable.executable import Argument, LayerTask, Task
from vendor_reference.firmware.instructions import instruction_set
from vendor_reference.firmware.program import NOWHERE

Place: TypeAlias = tuple[int, int]
"""A memory region, and an offset in this region; the offset is in units of `PLACE_UNIT` bytes."""

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]

_MOST_WORD = 2**32 - 1
_NO_WORD = 2**32
_MOST_REMEMBERED = 16
"""Number of shape combinations whose words are kept."""


def find_layer_runs(tasks: Sequence[Task], most_slots: int) -> Mapping[int, Sequence[LayerTask]]:
    """Groups consecutive layer tasks.

    Each group uses at most `most_slots` of the function's inputs and outputs.
    """
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
    """Returns the function's inputs and outputs that the given tasks use."""
    return {slot for task in tasks for a in task.arguments if (slot := find_slot(a))}


@dataclass(frozen=True, slots=True)
class CommandStream:
    """The commands of consecutive layer tasks, as words for the firmware.

    Attributes:
      words: 32-bit words of the commands; words that are known only in a run are 0.
      told: Sizes that are known only in a run, by the index of the word to set; and whether each size may be
        negative.
      offsets: Index in `words` of each command's first word.
      counts: Number of commands for each task.
      places: Arguments whose memory the commands use, in the order of the commands; None for an unused field.
    """

    words: Words
    told: Mapping[int, tuple[Size, bool]]
    offsets: Sequence[int]
    counts: Sequence[int]
    places: Sequence[Argument | None]


class ToldWords:
    """Computes the words of a command stream for the shapes of a run, and keeps the latest results."""

    def __init__(
        self,
        stream: CommandStream,
        where: str,
        used: Set[int],
        check: Callable[[Words, Shapes], None],
    ) -> None:
        """Compiles the sizes of a command stream to one function.

        Args:
          stream: Command stream that depends on the shapes of a run.
          where: Name of the layers, for error messages.
          used: Indices of the shapes that `check` needs.
          check: Function that raises an error if the words of the command stream are not valid for the given
            shapes.
        """
        self._stream = stream
        self._where = where
        self._check = check
        sizes = {size: number for number, size in enumerate({s for s, _ in stream.told.values()})}
        self._program = compile_sizes(list(sizes))
        self._shapes = sorted({*used, *(d.shape for size in sizes for d in shapes_in(size))})
        self._places = np.array(list(stream.told), np.int64)
        self._sources = np.array([sizes[size] for size, _ in stream.told.values()], np.int64)
        signed = np.array([is_signed for _, is_signed in stream.told.values()])
        self._least = np.where(signed, -(2**31), 0)
        self._most = np.where(signed, 2**31 - 1, 2**32 - 1)
        self._find = lru_cache(_MOST_REMEMBERED)(self._make)

    def find(self, shapes: Shapes) -> Words:
        """Returns all words of the stream, which callers must not change.

        Raises INVALID_ARGUMENT if a size is out of range.
        """
        return self._find(tuple(map(shapes, self._shapes)))

    def _make(self, values: tuple[Sequence[int], ...]) -> Words:
        words: Words = self._stream.words.copy()
        shapes = dict(zip(self._shapes, values, strict=True))
        words[self._places] = self._evaluate(shapes.__getitem__)
        self._check(words, shapes.__getitem__)
        return words

    def _evaluate(self, shapes: Shapes) -> Words:
        try:
            found = np.array(self._program(shapes), np.int64)[self._sources]
        except (ArithmeticError, ValueError):
            found = np.array([_NO_WORD])
        if (found < self._least).any() or (found > self._most).any():
            self._raise(shapes)
        words: Words = found.astype(np.uint32)
        return words

    def _raise(self, shapes: Shapes) -> NoReturn:
        """Raises the error of the first size that has no value, or whose value does not fit into a word."""
        for size, is_signed in self._stream.told.values():
            value = evaluate(size, shapes, self._where, is_signed)
            if value > (_MOST_WORD >> is_signed) or value < -(2**31):
                what = f"a size in a command for the NPU is {value}, but can be at most {_MOST_WORD >> is_signed}"
                raise LiteRtError(Status.INVALID_ARGUMENT, what, self._where)
        raise AssertionError("no size is out of range")


def assemble(tasks: Sequence[LayerTask], find_place: Callable[[Argument], Place]) -> CommandStream:
    """Assembles layer tasks into a command stream.

    `find_place` returns the memory region and offset of an argument.
    """
    numbers = {name: number for number, name in enumerate(instruction_set())}
    words: list[int] = []
    told: dict[int, tuple[Size, bool]] = {}
    offsets: list[int] = []
    arguments: list[Argument | None] = []
    for task in tasks:
        found = [find_place(argument) for argument in task.arguments]
        for command in task.commands:
            instruction = instruction_set()[command.instruction]
            offsets.append(len(words))
            size = 2 + instruction.num_words + len(instruction.places)
            words += [numbers[command.instruction], size]
            places = set(instruction.place_words)
            signed = [f.kind == "int" for f in instruction.fields for _ in range(f.count)]
            for index, word in enumerate(command.words):
                if index in places:
                    assert isinstance(word, int)
                    words += found[word - 1] if word else (NOWHERE, 0)
                    arguments.append(task.arguments[word - 1] if word else None)
                elif isinstance(word, int):
                    words.append(word)
                else:
                    told[len(words)] = (word, signed[index])
                    words.append(0)
    counts = [len(task.commands) for task in tasks]
    return CommandStream(np.array(words, np.uint32), told, offsets, counts, arguments)
