"""What a layer asks of the tensors that it reads and writes, wherever it stands in the IR.

A custom layer's external function has it as `IE.input_layouts` and its fellows, a `IE.CustomBinaryLayer` under the
same names without `IE.`, a builtin op in its class. Generic passes (layouts, precisions, memory spaces) ask here
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

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

NAMES = (
    "input_layouts", "output_layouts", "input_precisions", "output_precisions", "input_strides",
    "output_strides", "memory_spaces",
)  # fmt: skip
"""Attributes that hold requirements."""

_ANY = UnitAttr()
_FALSE, _TRUE = BoolAttr.from_bool(False), BoolAttr.from_bool(True)


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


def requirement_attributes(requirements: Requirements, prefix: str = "IE.") -> dict[str, Attribute]:
    """Requirements as attributes; those that ask for nothing are left out, layouts apart."""
    columns: dict[str, Sequence[Attribute | None]] = {
        "input_layouts": [_map(order) for order in requirements.input_layouts],
        "output_layouts": [_map(order) for order in requirements.output_layouts],
        "input_precisions": [_type(t) for t in requirements.input_precisions],
        "output_precisions": [_type(t) for t in requirements.output_precisions],
        "input_strides": [_flag(taken) for taken in requirements.input_strides],
        "output_strides": [_flag(taken) for taken in requirements.output_strides],
        "memory_spaces": [space_attribute(s) if s else None for s in requirements.memory_spaces],
    }
    attributes: dict[str, Attribute] = {}
    for name, column in columns.items():
        if name.endswith("layouts") or any(entry is not None for entry in column):
            nothing = _FALSE if name.endswith("strides") else _ANY
            attributes[prefix + name] = ArrayAttr([entry or nothing for entry in column])
    return attributes


def read_requirements(
    attributes: Mapping[str, Attribute], num_inputs: int, num_outputs: int, prefix: str = "IE."
) -> Requirements:
    """The requirements that attributes hold; one that is not there asks for nothing.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the attribute, and what it should be.
    """

    def column(
        name: str, read: Callable[[str, Attribute], _Entry], nothing: _Entry
    ) -> tuple[_Entry, ...]:
        is_input = name.startswith("input")
        count = num_inputs if is_input else num_outputs
        count = num_inputs + num_outputs if name == "memory_spaces" else count
        attribute = attributes.get(prefix + name)
        if attribute is None:
            return (nothing,) * count
        if not isinstance(attribute, ArrayAttr) or len(attribute.data) != count:
            raise _error(prefix + name, f"an array of {count}", attribute)
        return tuple(
            nothing if isinstance(entry, UnitAttr) else read(f"{prefix}{name}[{index}]", entry)
            for index, entry in enumerate(attribute.data)
        )

    return Requirements(
        column("input_layouts", _read_map, None),
        column("output_layouts", _read_map, None),
        column("input_precisions", _read_type, None),
        column("output_precisions", _read_type, None),
        column("input_strides", _read_flag, False),
        column("output_strides", _read_flag, False),
        column("memory_spaces", _read_space, None),
    )


_Entry = TypeVar("_Entry")


def _map(order: Order | None) -> Attribute | None:
    return None if order is None else order_map(order)


def _type(element_type: ElementType | None) -> Attribute | None:
    return None if element_type is None else ir_element_type(element_type)


def _flag(taken: bool) -> Attribute | None:
    return _TRUE if taken else None


def _read_map(where: str, attribute: Attribute) -> Order | None:
    if not isinstance(attribute, AffineMapAttr):
        raise _error(where, "a layout, as an affine map, or unit", attribute)
    return map_order(attribute)


def _read_type(where: str, attribute: Attribute) -> ElementType | None:
    element_type = find_element_type(attribute)
    if element_type is None:
        raise _error(where, "a type of elements, or unit", attribute)
    return element_type


def _read_flag(where: str, attribute: Attribute) -> bool:
    if not isinstance(attribute, IntegerAttr) or attribute.value.data not in (0, 1, -1):
        raise _error(where, "true or false", attribute)
    return bool(attribute.value.data)


def _read_space(where: str, attribute: Attribute) -> MemorySpace | None:
    spaces = [space.value for space in MemorySpace]
    if (
        not isinstance(attribute, SymbolRefAttr)
        or attribute.root_reference.data not in spaces
        or attribute.nested_references.data
    ):
        raise _error(where, f"one of @{', @'.join(spaces)}, or unit", attribute)
    return MemorySpace(attribute.root_reference.data)


def _error(where: str, expected: str, found: Attribute) -> LiteRtError:
    shown = str(found)[:60]
    return LiteRtError(Status.INVALID_ARGUMENT, f"{where} is {shown}, expected {expected}")
