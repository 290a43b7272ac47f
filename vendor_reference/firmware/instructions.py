"""The NPU's instruction set, read from the firmware's sources: each struct in `families/` is an instruction.

A command is an instruction with its fields filled in. Compiler and device agree on them by name: an executable
says which fields its commands have, in which order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TypeAlias

from litert.core.sizes import Expression, Size

FOLDER = files("vendor_reference.firmware")

_STRUCT = re.compile(r"^typedef struct \{\n(?P<fields>.*?)^\} (?P<name>\w+);", re.M | re.S)
_FIELDS = re.compile(r"(?P<kind>Place|uint|int|float) (?P<names>[^;]+);")
_NAME = re.compile(r"(\w+)(?:\[(\d+)\])?")
_COMMENT = re.compile(r"//.*")
_FORMATS = {"uint": "<I", "int": "<i", "float": "<f"}

FieldValue: TypeAlias = "Size | float | Sequence[Size | float]"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a command.

    Attributes:
      kind: `Place`, `uint`, `int` or `float`.
      count: of its elements.
    """

    name: str
    kind: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f"[{self.count}]" if self.count > 1 else "")


@dataclass(frozen=True, slots=True)
class Instruction:
    """What the NPU can be told to do.

    Attributes:
      name: of its struct.
      fields: of its struct, in order.
    """

    name: str
    fields: tuple[Field, ...]

    @property
    def places(self) -> Sequence[str]:
        """The names of the fields that are places."""
        return [field.name for field in self.fields if field.kind == "Place"]

    def words(self, values: Mapping[str, FieldValue]) -> tuple[Size, ...]:
        """The fields as 32-bit words, in order; a size that a run tells stays one.

        A place is one word here: the number that stands for it in `values`, or 0 where it has none.
        """
        unknown = values.keys() - {field.name for field in self.fields}
        missing = {f.name for f in self.fields if f.kind != "Place"} - values.keys()
        assert not unknown and not missing, f"{self.name}: {sorted(unknown)}, {sorted(missing)}"
        words: list[Size] = []
        for field in self.fields:
            value = values.get(field.name, 0)
            numbers = value if isinstance(value, Sequence) else [value]
            assert len(numbers) == field.count, f"{self.name}.{field.name}"
            words += [_word(field.kind, number) for number in numbers]
        return tuple(words)


def _word(kind: str, number: Size | float) -> Size:
    if isinstance(number, Expression):
        return number
    data = struct.pack(_FORMATS.get(kind, "<I"), number)
    return int.from_bytes(data, "little")


@cache
def instruction_set() -> Mapping[str, Instruction]:
    """All instructions, by name, in the order of their numbers in commands."""
    found = [
        Instruction(match["name"], tuple(_read_fields(match["fields"])))
        for text in family_texts()
        for match in _STRUCT.finditer(text)
    ]
    return MappingProxyType({instruction.name: instruction for instruction in found})


@cache
def family_texts() -> Sequence[str]:
    """The sources of all families, in the order of their names."""
    names = sorted(f.name for f in (FOLDER / "families").iterdir() if f.name.endswith(".cl"))
    return [(FOLDER / "families" / name).read_text(encoding="utf-8") for name in names]


def _read_fields(text: str) -> Sequence[Field]:
    return [
        Field(name, match["kind"], int(count or 1))
        for match in _FIELDS.finditer(_COMMENT.sub("", text))
        for name, count in _NAME.findall(match["names"])
    ]
