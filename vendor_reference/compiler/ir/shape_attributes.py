"""Attributes that say how run-time shapes are computed, and how large shapes can be.

    IE.output_shapes = [0 : i64, ["B", "F*2"], @calc_shape, unit]

The attribute `IE.output_shapes` of a layer's function has an entry for each output: the number of the input with
the same shape, a formula for each dimension, or the function that computes the shape. The entry `unit` means that
the shape is fixed, or that the layer's own kernel writes the shape.

    IE.bounds = [array<i64: 100, 3>, unit]

The attribute `IE.bounds` holds the largest shapes. If a function with a body has this attribute, it holds the
shapes of the function's arguments. If a call or the called function has the attribute, it holds the shapes of the
results. The compiler uses a result's bound only if the bound does not follow from the inputs. The pass
`bound-shapes` replaces bounds by the attributes `IE.input_patterns` and `IE.output_patterns`, in which -1 marks a
size that is known only at run time.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.output_shape import SameShape
from litert.core.status import Status
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, read_kernel
from vendor_reference.custom_layers.kernel_spec import ShapeArgument

OUTPUT_SHAPES = "IE.output_shapes"
BOUNDS = "IE.bounds"
INPUT_PATTERNS = "IE.input_patterns"
OUTPUT_PATTERNS = "IE.output_patterns"
INPUT_NAMES = "IE.input_names"
"""Attribute of a function with a body. It holds the names of the arguments in the model, for messages."""
DYNAMIC_INPUTS = "dynamic_inputs"
DYNAMIC_OUTPUTS = "dynamic_outputs"
"""Attributes with the indices of the inputs and outputs to which shape values belong.

If an op has neither of the two attributes, its shape values belong to its first inputs and outputs.
"""

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Formulas:
    """A formula for each dimension.

    B, F, Y and X are sizes of input 0, unless a formula refers to another input.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundBy:
    """Another function computes the shape from the shapes of the inputs."""

    function: str


ShapeSource: TypeAlias = SameShape | Formulas | FoundBy | None
"""How the shape of an output is found."""


def output_shapes_attribute(sources: Sequence[ShapeSource]) -> ArrayAttr[Attribute]:
    """Makes the attribute `IE.output_shapes`."""
    return ArrayAttr([_source_attribute(source) for source in sources])


def read_output_shapes(attributes: Mapping[str, Attribute], count: int) -> Sequence[ShapeSource]:
    """Returns how the shapes of `count` outputs are found; each entry is None without the attribute."""
    expected = f"must be an array with one entry for each output ({count_text(count, 'output')})"
    entries = _read_entries(attributes, OUTPUT_SHAPES, count, expected)
    return [_read_source(entry) for entry in entries]


def shapes_attribute(shapes: Sequence[Sequence[int] | None]) -> ArrayAttr[Attribute]:
    """Makes the value of the attribute `IE.bounds`, or of an attribute with patterns."""
    return ArrayAttr(
        [UnitAttr() if s is None else DenseArrayBase.from_list(i64, list(s)) for s in shapes]
    )


def read_shapes(
    attributes: Mapping[str, Attribute], name: str, count: int
) -> Sequence[Shape | None]:
    """Returns the `count` shapes in an attribute that `shapes_attribute` makes; missing shapes are None."""
    entries = _read_entries(
        attributes, name, count, f"must be an array with {count_text(count, 'shape')}"
    )
    return [_read_shape(name, entry) for entry in entries]


def call_bounds(op: Operation, function: Operation, count: int) -> Sequence[Shape | None]:
    """Returns the largest shapes of a call's results, from `IE.bounds` of the call or of its function."""
    said = op if BOUNDS in op.attributes else function
    return read_shapes(said.attributes, BOUNDS, count)


def _read_entries(
    attributes: Mapping[str, Attribute], name: str, count: int, expected: str
) -> Sequence[Attribute]:
    attribute = attributes.get(name)
    if attribute is None:
        return [UnitAttr()] * count
    if not isinstance(attribute, ArrayAttr) or len(attribute.data) != count:
        raise _error(name, expected, f"is {attribute}")
    entries: Sequence[Attribute] = attribute.data
    return entries


def _source_attribute(source: ShapeSource) -> Attribute:
    if isinstance(source, SameShape):
        return IntegerAttr(source.input, i64)
    if isinstance(source, Formulas):
        return ArrayAttr([StringAttr(text) for text in source.texts])
    return UnitAttr() if source is None else SymbolRefAttr(source.function)


def _read_source(entry: Attribute) -> ShapeSource:
    if isinstance(entry, UnitAttr):
        return None
    if isinstance(entry, IntegerAttr) and entry.value.data >= 0:
        return SameShape(entry.value.data)
    if isinstance(entry, SymbolRefAttr):
        return FoundBy(entry.root_reference.data)
    if isinstance(entry, ArrayAttr) and all(isinstance(text, StringAttr) for text in entry.data):
        return Formulas(tuple(t.data for t in entry.data if isinstance(t, StringAttr)))
    expected = "each entry must be the index of an input, formulas, a function or unit"
    raise _error(OUTPUT_SHAPES, expected, f"has the entry {entry}")


def _read_shape(name: str, entry: Attribute) -> Shape | None:
    if isinstance(entry, UnitAttr):
        return None
    if isinstance(entry, DenseArrayBase):
        return tuple(int(value) for value in entry.get_values())
    raise _error(name, "each entry must be array<i64: ...> or unit", f"has the entry {entry}")


def _error(name: str, expected: str, found: object) -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, f"attribute {name} {found}, but {expected}")


def read_ports(attributes: Mapping[str, Attribute], name: str, count: int) -> Sequence[int]:
    """Returns the indices of the inputs or outputs that shapes belong to; a verifier has checked the attribute."""
    attribute = attributes.get(name)
    if not isinstance(attribute, ArrayAttr):
        return range(count)
    return [int(i.value.data) for i in attribute.data if isinstance(i, IntegerAttr)]


def found_by_kernel(attributes: Mapping[str, Attribute]) -> Container[int]:
    """Returns the indices of the outputs whose shapes the kernel of a layer computes.

    The kernel writes the output shapes that are its arguments. The exceptions are shapes that another function
    computes, because the kernel reads these shapes. If the attributes contain no kernel, `unit` in
    `IE.output_shapes` marks the shapes
      that the kernel writes.
    """
    sources = attributes.get(OUTPUT_SHAPES)
    entries = sources.data if isinstance(sources, ArrayAttr) else ()
    if KERNEL not in attributes:
        return {port for port, entry in enumerate(entries) if isinstance(entry, UnitAttr)}
    others = {port for port, entry in enumerate(entries) if isinstance(entry, SymbolRefAttr)}
    arguments = read_kernel(attributes).arguments
    own = {a.index for a in arguments if isinstance(a, ShapeArgument) and a.is_output}
    return own - others
