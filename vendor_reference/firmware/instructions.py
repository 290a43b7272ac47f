"""Reads the NPU's instruction set from the firmware's sources: each struct in `families/` is an instruction.

A command is an instruction with values for its fields. An executable contains a list of the instructions that it
uses, and of their fields. The device compares these instructions, by name, with its own instructions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TypeAlias

from litert.core.errors import LiteRtError
from litert.core.sizes import Expression, Size
from litert.core.status import Status

FOLDER = files("vendor_reference.firmware")

_STRUCT = re.compile(r"^typedef struct \{\n(?P<fields>.*?)^\} (?P<name>\w+);", re.M | re.S)
_REPORTING = re.compile(r"^void run_(\w+)\((?:(?!^\}).)*?\breport_index\(", re.M | re.S)
_FIELDS = re.compile(r"(?P<kind>Place|uint|int|float) (?P<names>[^;]+);")
_FIELD = re.compile(r"(Place|uint|int|float) (\w+)(?:\[(\d{1,4})\])?")
_NAME = re.compile(r"(\w+)(?:\[(\d+)\])?")
_COMMENT = re.compile(r"//.*")
_FORMATS = {"uint": "<I", "int": "<i", "float": "<f"}

FieldValue: TypeAlias = "Size | float | str | tuple[Size | float | str, ...]"
"""Value of a command's field: a number, a tuple for an array, or a formula for a size known only at run time."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a firmware instruction.

    Attributes:
      kind: Type of the field: `Place` (a memory location), `uint`, `int` or `float`.
      count: Number of elements of the field; if it is not 1, the field is an array.
    """

    name: str
    kind: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f"[{self.count}]" if self.count > 1 else "")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of the NPU.

    Attributes:
      name: Name of the instruction's struct in the firmware's source code.
      fields: Fields of the instruction's struct, in order.
    """

    name: str
    fields: tuple[Field, ...]

    @property
    def num_words(self) -> int:
        """Number of words that the instruction's fields take in a command."""
        return sum(field.count for field in self.fields)

    @property
    def places(self) -> Sequence[str]:
        """The names of the fields of type `Place`."""
        return [field.name for field in self.fields if field.kind == "Place"]

    @property
    def place_words(self) -> Sequence[int]:
        """Indices of the words that belong to fields of type `Place`."""
        starts, at = [], 0
        for field in self.fields:
            starts += [at] if field.kind == "Place" else []
            at += field.count
        return starts

    def words(self, values: Mapping[str, FieldValue]) -> tuple[Size, ...]:
        """Encodes the fields as 32-bit words, in order; sizes that are known only at run time stay formulas.

        A field of type `Place` is one word, which is its number in `values`, or 0 for no memory. Missing elements
        at the end of an array are 0.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for an unknown field, too many numbers in a field, or a number out of
            range.
        """
        for name in sorted(values.keys() - {field.name for field in self.fields}):
            raise self._error(f"has no field '{name}'")
        words: list[Size] = []
        for field in self.fields:
            if field.name not in values and field.kind != "Place":
                raise self._error(f"needs a value for field '{field.name}'")
            value = values.get(field.name, 0)
            numbers = value if isinstance(value, tuple) else (value,)
            if not 0 < len(numbers) <= field.count:
                raise self._error(f"has field '{field}', which cannot hold {len(numbers)} numbers")
            try:
                words += [_word(field.kind, number) for number in numbers]
                words += [0] * (field.count - len(numbers))
            except (struct.error, OverflowError):
                raise self._error(f"has field '{field}', which cannot hold {value}") from None
        return tuple(words)

    def _error(self, what: str) -> LiteRtError:
        return LiteRtError(Status.INVALID_ARGUMENT, f"instruction '{self.name}' {what}")


def parse_field(text: str) -> Field:
    """Parses the text of a field as `str(field)` returns it; raises ValueError for other text."""
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not the type and name of a field")
    return Field(match[2], match[1], int(match[3] or 1))


def _word(kind: str, number: Size | float | str) -> Size:
    if isinstance(number, Expression) and kind != "float":
        return number
    data = struct.pack(_FORMATS.get(kind, "<I"), number)
    return int.from_bytes(data, "little")


@dataclass(frozen=True, slots=True)
class Command:
    """A firmware command: an instruction with the values of its fields.

    Attributes:
      instruction: Name of the command's instruction.
      fields: Values of the fields by name; the value of a field of type `Place` is the number of an argument.
    """

    instruction: str
    fields: tuple[tuple[str, FieldValue], ...]

    @classmethod
    def of(cls, instruction: str, **fields: FieldValue) -> Command:
        """Creates a command from an instruction name and the values of its fields."""
        return cls(instruction, tuple(fields.items()))


@cache
def instruction_set() -> Mapping[str, Instruction]:
    """Returns all instructions by name, in the order of the numbers that they have in commands."""
    found = [
        Instruction(match["name"], tuple(_read_fields(match["fields"])))
        for text in family_texts()
        for match in _STRUCT.finditer(text)
    ]
    return MappingProxyType({instruction.name: instruction for instruction in found})


@cache
def family_texts() -> Sequence[str]:
    """Returns the source code of all instruction families, in the order of their names."""
    names = sorted(f.name for f in (FOLDER / "families").iterdir() if f.name.endswith(".cl"))
    return [(FOLDER / "families" / name).read_text(encoding="utf-8") for name in names]


@cache
def reporting_instructions() -> Set[str]:
    """Returns the instructions that end a run with an error if a tensor contains an index out of range."""
    return frozenset(name for text in family_texts() for name in _REPORTING.findall(text))


def _read_fields(text: str) -> Sequence[Field]:
    return [
        Field(name, match["kind"], int(count or 1))
        for match in _FIELDS.finditer(_COMMENT.sub("", text))
        for name, count in _NAME.findall(match["names"])
    ]
