"""Attributes that say how shapes are found, and how large they can be.

    IE.output_shapes = [0 : i64, ["B", "F*2"], @calc_shape, unit]

of a layer's function, for each output: that of an input, a formula for each dimension, what another function
finds; `unit` for a fixed shape, and for one that the layer's own kernel writes.

    IE.bounds = [array<i64: 100, 3>, unit]

of a function with a body, for each argument; of a call, or of its function, for each tensor that it makes: the
largest shape, where nothing else says it. `bound-shapes` leaves `IE.input_patterns` and `IE.output_patterns`, with
-1 for what a run tells.
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
"""On a function with a body, what the model calls its arguments; for messages."""
DYNAMIC_INPUTS = "dynamic_inputs"
DYNAMIC_OUTPUTS = "dynamic_outputs"
"""The inputs and outputs that shape values belong to; where they are not there, the first ones."""

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Formulas:
    """A formula for each dimension; in input 0's B, F, Y, X unless it says otherwise."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundBy:
    """Another function finds it, of the shapes of the inputs."""

    function: str


ShapeSource: TypeAlias = SameShape | Formulas | FoundBy | None
"""How an output's shape is found."""


def output_shapes_attribute(sources: Sequence[ShapeSource]) -> ArrayAttr[Attribute]:
    """`IE.output_shapes`."""
    return ArrayAttr([_source_attribute(source) for source in sources])


def read_output_shapes(attributes: Mapping[str, Attribute], count: int) -> Sequence[ShapeSource]:
    """How the shapes of `count` outputs are found; None for each where nothing is said."""
    expected = f"an array with something for each of {count} outputs"
    entries = _read_entries(attributes, OUTPUT_SHAPES, count, expected)
    return [_read_source(entry) for entry in entries]


def shapes_attribute(shapes: Sequence[Sequence[int] | None]) -> ArrayAttr[Attribute]:
    """`IE.bounds`, or patterns."""
    return ArrayAttr(
        [UnitAttr() if s is None else DenseArrayBase.from_list(i64, list(s)) for s in shapes]
    )


def read_shapes(
    attributes: Mapping[str, Attribute], name: str, count: int
) -> Sequence[Shape | None]:
    """`count` shapes, each where it is there; the attribute is as `shapes_attribute` makes it."""
    entries = _read_entries(attributes, name, count, f"an array with {count} shapes")
    return [_read_shape(name, entry) for entry in entries]


def call_bounds(op: Operation, function: Operation, count: int) -> Sequence[Shape | None]:
    """The largest shapes of what a call makes: the call says them, or its function."""
    said = op if BOUNDS in op.attributes else function
    return read_shapes(said.attributes, BOUNDS, count)


def _read_entries(
    attributes: Mapping[str, Attribute], name: str, count: int, expected: str
) -> Sequence[Attribute]:
    attribute = attributes.get(name)
    if attribute is None:
        return [UnitAttr()] * count
    if not isinstance(attribute, ArrayAttr) or len(attribute.data) != count:
        raise _error(name, expected, attribute)
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
    raise _error(OUTPUT_SHAPES, "an input's number, formulas, a function or unit", entry)


def _read_shape(name: str, entry: Attribute) -> Shape | None:
    if isinstance(entry, UnitAttr):
        return None
    if isinstance(entry, DenseArrayBase):
        return tuple(int(value) for value in entry.get_values())
    raise _error(name, "array<i64: ...> or unit", entry)


def _error(name: str, expected: str, found: object) -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, f"{name} is {found}, expected {expected}")


def read_ports(attributes: Mapping[str, Attribute], name: str, count: int) -> Sequence[int]:
    """The inputs or outputs that shapes belong to; a verifier has seen the attribute."""
    attribute = attributes.get(name)
    if not isinstance(attribute, ArrayAttr):
        return range(count)
    return [int(i.value.data) for i in attribute.data if isinstance(i, IntegerAttr)]


def found_by_kernel(attributes: Mapping[str, Attribute]) -> Container[int]:
    """The outputs whose shapes a layer's kernel finds, by its function's attributes.

    It writes those that it has as arguments, unless another function finds them: then it reads them. Where the
    attributes hold no kernel, `unit` in `IE.output_shapes` says that it does.
    """
    sources = attributes.get(OUTPUT_SHAPES)
    entries = sources.data if isinstance(sources, ArrayAttr) else ()
    if KERNEL not in attributes:
        return {port for port, entry in enumerate(entries) if isinstance(entry, UnitAttr)}
    others = {port for port, entry in enumerate(entries) if isinstance(entry, SymbolRefAttr)}
    arguments = read_kernel(attributes).arguments
    own = {a.index for a in arguments if isinstance(a, ShapeArgument) and a.is_output}
    return own - others
