"""The requirements of a layer for the tensors that it reads and writes, at all IR levels.

The external function of a custom layer has attributes with the requirements, such as `IE.input_layouts`. An
`IE.CustomBinaryLayer` has the same attributes without the prefix `IE.`. The requirements of a builtin op are in
its class. The passes for layouts, precisions, strides and memory spaces find requirements only through this
module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute

from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.types import (
    Order,
    find_element_type,
    ir_element_type,
    map_order,
    order_map,
    shape_of,
    space_attribute,
    strides_order,
)
from vendor_reference.compiler.memory_spaces import MemorySpace
from vendor_reference.executable.executable import format_shape


@dataclass(frozen=True, slots=True)
class TensorRequirement:
    """A layer's requirements for a tensor: layout, element type, memory space, and strides.

    A requirement of None accepts any value.

    Attributes:
      strides: Required stride of each dimension, in elements; True accepts any strided view of a larger tensor;
        False requires a tensor without gaps.
    """

    layout: Order | None = None
    precision: ElementType | None = None
    strides: bool | tuple[int, ...] = False
    space: MemorySpace | None = None

    @property
    def takes_view(self) -> bool:
        """Returns whether the tensor can be a strided view of a larger tensor."""
        return self.strides is True


@dataclass(frozen=True, slots=True)
class Requirements:
    """A layer's requirements for each of its inputs and outputs."""

    inputs: tuple[TensorRequirement, ...]
    outputs: tuple[TensorRequirement, ...]

    @classmethod
    def of_layouts(
        cls, inputs: Sequence[Order | None], outputs: Sequence[Order | None]
    ) -> Requirements:
        """Makes requirements that contain only layouts."""
        return cls(tuple(map(TensorRequirement, inputs)), tuple(map(TensorRequirement, outputs)))


_UNIT = UnitAttr()


@dataclass(frozen=True, slots=True)
class _Entries:
    """The form of an attribute's entries.

    Attributes:
      field: Field of `TensorRequirement`.
      write: Function that converts a requirement to an attribute.
      read: Function that converts an attribute back; it returns None for other attributes.
      expected: Expected form, for messages.
      nothing: Entry without a requirement.
      blank: Attribute of an entry without a requirement; `unit` is another form of it.
      is_kept: Whether the attribute is written even if no entry has a requirement.
    """

    field: str
    write: Callable[[Any], Attribute]
    read: Callable[[Attribute], object]
    expected: str
    nothing: object = None
    blank: Attribute = _UNIT
    is_kept: bool = False


def _read_strides(attribute: Attribute) -> bool | tuple[int, ...] | None:
    if isinstance(attribute, IntegerAttr) and attribute.value.data in (0, 1, -1):
        return bool(attribute.value.data)
    if isinstance(attribute, DenseArrayBase):
        return tuple(int(stride) for stride in attribute.get_values())
    numbers = attribute.data if isinstance(attribute, ArrayAttr) else ()
    strides = tuple(n.value.data for n in numbers if isinstance(n, IntegerAttr))
    return strides if strides and len(strides) == len(numbers) else None


def _write_strides(strides: bool | tuple[int, ...]) -> Attribute:
    if isinstance(strides, bool):
        return BoolAttr.from_bool(strides)
    return DenseArrayBase.from_list(i64, list(strides))


def _read_space(attribute: Attribute) -> MemorySpace | None:
    if not isinstance(attribute, SymbolRefAttr) or attribute.nested_references.data:
        return None
    return _SPACES.get(attribute.root_reference.data)


_SPACES = {space.value: space for space in MemorySpace}
_LAYOUT = _Entries(
    "layout",
    order_map,
    lambda found: map_order(found) if isinstance(found, AffineMapAttr) else None,
    "a layout, as an affine map, or unit",
    is_kept=True,
)
_PRECISION = _Entries(
    "precision", ir_element_type, find_element_type, "a type of elements, or unit"
)
_STRIDES = _Entries(
    "strides",
    _write_strides,
    _read_strides,
    "true (any strides), false or unit (no gaps), or the strides of each dimension, such as "
    "[160000, 1, 1600, 16]",
    nothing=False,
    blank=BoolAttr.from_bool(False),
)
_SPACE = _Entries("space", space_attribute, _read_space, f"one of @{', @'.join(_SPACES)}, or unit")

_ATTRIBUTES = {
    "input_layouts": _LAYOUT, "output_layouts": _LAYOUT,
    "input_precisions": _PRECISION, "output_precisions": _PRECISION,
    "input_strides": _STRIDES, "output_strides": _STRIDES,
    "memory_spaces": _SPACE,
}  # fmt: skip
NAMES = tuple(_ATTRIBUTES)
"""Names of the attributes that hold requirements; those for memory spaces hold inputs, then outputs."""


def requirement_attributes(requirements: Requirements, prefix: str = "IE.") -> dict[str, Attribute]:
    """Converts requirements to attributes; omits attributes that hold no requirement, except those for layouts."""
    attributes: dict[str, Attribute] = {}
    tensors = [*requirements.inputs, *requirements.outputs]
    for name, entries in _ATTRIBUTES.items():
        asked = [getattr(t, entries.field) for t in _group(name, tensors, len(requirements.inputs))]
        if entries.is_kept or any(entry != entries.nothing for entry in asked):
            attributes[prefix + name] = ArrayAttr(
                [entries.blank if e == entries.nothing else entries.write(e) for e in asked]
            )
    return attributes


def read_requirements(
    attributes: Mapping[str, Attribute], num_inputs: int, num_outputs: int, prefix: str = "IE."
) -> Requirements:
    """Reads requirements from attributes; a missing attribute means no requirement.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an attribute does not have the expected format.
    """
    fields: list[dict[str, Any]] = [{} for _ in range(num_inputs + num_outputs)]
    for name, entries in _ATTRIBUTES.items():
        attribute = attributes.get(prefix + name)
        if attribute is not None:
            tensors = _group(name, fields, num_inputs)
            column = _read_column(entries, prefix + name, attribute, len(tensors))
            for tensor, found in zip(tensors, column, strict=True):
                tensor[entries.field] = found
    asked = tuple(map(_with_layout, (TensorRequirement(**tensor) for tensor in fields)))
    return Requirements(asked[:num_inputs], asked[num_inputs:])


def _with_layout(asked: TensorRequirement) -> TensorRequirement:
    """Adds the layout that strides require: the order in which they fall."""
    if isinstance(asked.strides, bool) or asked.layout is not None:
        return asked
    return replace(asked, layout=strides_order(asked.strides))


def check_requirements(
    requirements: Requirements, read: Sequence[Attribute], made: Sequence[Attribute], where: str
) -> None:
    """Checks that layouts have the rank of their tensors, and that the required strides are possible."""
    for kind, asked, types in (
        ("input", requirements.inputs, read),
        ("output", requirements.outputs, made),
    ):
        for index, (tensor, ir_type) in enumerate(zip(asked, types, strict=True)):
            check_strides(tensor, shape_of(ir_type), f"{kind} {index} of {where}")
            layout, rank = tensor.layout, len(shape_of(ir_type))
            if layout is not None and len(layout) != rank:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"{kind} {index} has rank {rank}, but its layout is for rank {len(layout)}",
                    where,
                    f"Write a layout for rank {rank} in the attribute {kind}_layouts.",
                )


def check_strides(asked: TensorRequirement, shape: Sequence[int], where: str) -> None:
    """Rejects strides that are not possible for a tensor of the given shape.

    Strides of run-time dimensions are checked later.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the strides are not possible.
    """
    strides = asked.strides
    if isinstance(strides, bool):
        return
    shown = f"strides {list(strides)} do not fit shape {format_shape(shape)}"
    if len(strides) != len(shape):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{shown}: the number of strides is {len(strides)}, but must be {len(shape)}",
            where,
        )
    dims = [dim for dim, size in enumerate(shape) if size != 1]
    if any(stride < 1 for stride in strides) or max(strides) > _MAX_STRIDE:
        what = f"{shown}: each stride must be from 1 to {_MAX_STRIDE} elements"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where)
    falling = sorted(dims, key=lambda dim: (-strides[dim], dim))
    for slow, fast in pairwise(falling):
        if strides[slow] < strides[fast] * shape[fast]:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{shown}: elements would overlap, because dimension {slow} has a stride of {strides[slow]} "
                f"elements, but dimension {fast} extends over {strides[fast] * shape[fast]} elements",
                where,
                f"Set the stride of dimension {slow} to at least {strides[fast] * shape[fast]}.",
            )
    layout = [dim for dim in asked.layout or falling if dim in falling]
    if layout != falling:
        what = (
            f"{shown}: from the largest to the smallest, the strides belong to the dimensions {falling}, but "
            f"without the dimensions of size 1, the layout has the order {layout}"
        )
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where)


_MAX_STRIDE = 2**31 - 1


def _group(name: str, tensors: list[Any], num_inputs: int) -> list[Any]:
    """Returns the tensors that an attribute is about."""
    if name.startswith("input_"):
        return tensors[:num_inputs]
    return tensors[num_inputs:] if name.startswith("output_") else tensors


def _read_column(
    entries: _Entries, name: str, attribute: Attribute, count: int
) -> Sequence[object]:
    if not isinstance(attribute, ArrayAttr) or len(attribute.data) != count:
        raise _error(name, f"an array with {count_text(count, 'element')}", attribute)
    column = []
    for index, entry in enumerate(attribute.data):
        found = entries.nothing if isinstance(entry, UnitAttr) else entries.read(entry)
        if found is None and not isinstance(entry, UnitAttr):
            raise _error(f"{name}[{index}]", entries.expected, entry)
        column.append(found)
    return column


def _error(where: str, expected: str, found: Attribute) -> LiteRtError:
    shown = str(found)[:60]
    return LiteRtError(
        Status.INVALID_ARGUMENT, f"attribute {where} is {shown}, but must be {expected}"
    )
