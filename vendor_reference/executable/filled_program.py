"""A program for certain shapes: sizes are put into the holes of its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from litert.core.sizes import Expression, Shapes, Size, evaluate
from vendor_reference.executable.executable import HOLE, Program


class Holes:
    """The sizes of a text that is being written."""

    def __init__(self) -> None:
        self._sizes: list[Size] = []

    @property
    def sizes(self) -> tuple[Size, ...]:
        """For the holes in the text, in order."""
        return tuple(self._sizes)

    def text(self, size: Size) -> str:
        """A size where it belongs into the text: its digits, or a hole."""
        if isinstance(size, Expression):
            self._sizes.append(size)
            return HOLE
        return str(size)


def hole_values(program: Program, shapes: Shapes) -> tuple[int, ...]:
    """What belongs into a program's holes; programs that agree in it are one.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a size without a value.
    """
    where = f"defines of {program.sources[0].file_name if program.sources else 'a kernel'}"
    return tuple(evaluate(size, shapes, where) for size in program.holes)


def fill_program(program: Program, values: Sequence[int]) -> Program:
    """The program with values in its holes."""
    if not program.holes:
        return program
    first, *rest = program.prelude.split(HOLE)
    filled = [first]
    for value, text in zip(values, rest, strict=True):
        filled += [str(value), text]
    return replace(program, prelude="".join(filled), holes=())
