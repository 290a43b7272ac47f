"""What a layer asks of the tensors that it reads and writes, wherever it stands in the IR.

A custom layer's external function has it as `IE.input_layouts` and its fellows, a `IE.CustomBinaryLayer` under the
same names without `IE.`, a builtin op in its class. Generic passes (layouts, precisions, memory spaces) ask here
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    IntegerAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.types import (
    Order,
    find_element_type,
    ir_element_type,
    map_order,
    order_map,
    space_attribute,
)
from vendor_reference.compiler.memory_spaces import MemorySpace


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a layer asks for; None takes what comes.

    Attributes:
      input_layouts, output_layouts: how elements must lie.
      input_precisions, output_precisions: what elements must be.
      input_strides, output_strides: whether it takes a strided view of a larger tensor.
      memory_spaces: where inputs, then outputs, must lie.
    """

    input_layouts: tuple[Order | None, ...]
    output_layouts: tuple[Order | None, ...]
    input_precisions: tuple[ElementType | None, ...]
    output_precisions: tuple[ElementType | None, ...]
    input_strides: tuple[bool, ...]
    output_strides: tuple[bool, ...]
    memory_spaces: tuple[MemorySpace | None, ...]

    @classmethod
    def of_layouts(
        cls, input_layouts: Sequence[Order | None], output_layouts: Sequence[Order | None]
    ) -> Requirements:
        """Layouts, and nothing else."""
        inputs, outputs = len(input_layouts), len(output_layouts)
        return cls(
            tuple(input_layouts),
            tuple(output_layouts),
            (None,) * inputs,
            (None,) * outputs,
            (False,) * inputs,
            (False,) * outputs,
            (None,) * (inputs + outputs),
        )


_UNIT = UnitAttr()


@dataclass(frozen=True, slots=True)
class _Entries:
    """What the entries of an attribute are.

    Attributes:
      write: the attribute of one that asks for something.
      read: back; of something else, None.
      expected: for messages.
      nothing: an entry that asks for nothing.
      blank: its attribute; `unit` is another.
      is_kept: whether the attribute is written also where no entry asks for anything.
    """

    write: Callable[[Any], Attribute]
    read: Callable[[Attribute], object]
    expected: str
    nothing: object = None
    blank: Attribute = _UNIT
    is_kept: bool = False


def _read_flag(attribute: Attribute) -> bool | None:
    if not isinstance(attribute, IntegerAttr) or attribute.value.data not in (0, 1, -1):
        return None
    return bool(attribute.value.data)


def _read_space(attribute: Attribute) -> MemorySpace | None:
    if not isinstance(attribute, SymbolRefAttr) or attribute.nested_references.data:
        return None
    return _SPACES.get(attribute.root_reference.data)


_SPACES = {space.value: space for space in MemorySpace}
_LAYOUT = _Entries(
    order_map,
    lambda found: map_order(found) if isinstance(found, AffineMapAttr) else None,
    "a layout, as an affine map, or unit",
    is_kept=True,
)
_PRECISION = _Entries(ir_element_type, find_element_type, "a type of elements, or unit")
_STRIDES = _Entries(
    BoolAttr.from_bool, _read_flag, "true or false", False, BoolAttr.from_bool(False)
)
_SPACE = _Entries(space_attribute, _read_space, f"one of @{', @'.join(_SPACES)}, or unit")

_ATTRIBUTES = {
    "input_layouts": _LAYOUT, "output_layouts": _LAYOUT,
    "input_precisions": _PRECISION, "output_precisions": _PRECISION,
    "input_strides": _STRIDES, "output_strides": _STRIDES,
    "memory_spaces": _SPACE,
}  # fmt: skip
NAMES = tuple(_ATTRIBUTES)
"""Attributes that hold requirements."""


def requirement_attributes(requirements: Requirements, prefix: str = "IE.") -> dict[str, Attribute]:
    """Requirements as attributes; those that ask for nothing are left out, layouts apart."""
    attributes: dict[str, Attribute] = {}
    for name, entries in _ATTRIBUTES.items():
        asked = [None if e == entries.nothing else e for e in getattr(requirements, name)]
        if entries.is_kept or any(entry is not None for entry in asked):
            attributes[prefix + name] = ArrayAttr(
                [entries.blank if entry is None else entries.write(entry) for entry in asked]
            )
    return attributes


def read_requirements(
    attributes: Mapping[str, Attribute], num_inputs: int, num_outputs: int, prefix: str = "IE."
) -> Requirements:
    """The requirements that attributes hold; one that is not there asks for nothing.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the attribute, and what it should be.
    """
    counts = {"input": num_inputs, "output": num_outputs, "memory": num_inputs + num_outputs}
    columns: dict[str, Any] = {}
    for name, entries in _ATTRIBUTES.items():
        count = counts[name.partition("_")[0]]
        columns[name] = _read_column(entries, prefix + name, attributes.get(prefix + name), count)
    return Requirements(**columns)


def _read_column(
    entries: _Entries, name: str, attribute: Attribute | None, count: int
) -> tuple[object, ...]:
    if attribute is None:
        return (entries.nothing,) * count
    if not isinstance(attribute, ArrayAttr) or len(attribute.data) != count:
        raise _error(name, f"an array of {count}", attribute)
    column = []
    for index, entry in enumerate(attribute.data):
        found = entries.nothing if isinstance(entry, UnitAttr) else entries.read(entry)
        if found is None and not isinstance(entry, UnitAttr):
            raise _error(f"{name}[{index}]", entries.expected, entry)
        column.append(found)
    return tuple(column)


def _error(where: str, expected: str, found: Attribute) -> LiteRtError:
    shown = str(found)[:60]
    return LiteRtError(Status.INVALID_ARGUMENT, f"{where} is {shown}, expected {expected}")
