"""The sources from which defines and kernel arguments get their values: the layer's description, or the op.

A description can also refer to a constant input of an op by name; this module finds this input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from litert.core.counts import index_range
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.model.builtin_options import read_builtin_options
from litert.model.custom_options import find_flexbuffer_options
from litert.model.flexbuffer import FlexValue
from litert.model.graph import Op, Tensor
from litert.model.raw_options import RawField, read_raw_fields

Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | Sequence[Scalar]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that the layer's description contains."""

    value: Value


@dataclass(frozen=True, slots=True)
class FlexOption:
    """An option of the op: an entry of a custom op's FlexBuffer, or a builtin op's option by its schema name.

    Attributes:
      default: Value to use if the op does not have the option.
      element: Index of an element if the option is a list; None for the whole list.
    """

    key: str
    default: Value | None = None
    element: int | None = None


@dataclass(frozen=True, slots=True)
class StructField:
    """A field of the op's options if the options are a C struct.

    Attributes:
      offset: Offset of the field from the start of the options, in bytes.
      count: Number of elements if the field is an array; None for a single number.
    """

    element_type: ElementType
    offset: int
    count: int | None = None


@dataclass(frozen=True, slots=True)
class QuantizationOf:
    """The scale or zero point of an input or output; its value is a sequence if quantization is per channel."""

    parameter: str
    is_output: bool
    index: int


@dataclass(frozen=True, slots=True)
class SizeFormula:
    """A formula over sizes of the op's tensors, such as `INPUT0_DIMS[3]`; the sizes must be fixed."""

    text: str


ValueSource: TypeAlias = Literal | FlexOption | StructField | QuantizationOf | SizeFormula | bytes
"""Sources of values; `bytes` stands for the numbers of one op, already evaluated and packed."""


class OpValues:
    """Evaluates value sources for one op; the op's options are decoded on first use."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._options = bytes(op.custom_options or b"")

    def resolve(self, source: ValueSource) -> Value:
        """Returns the value of a source for the op.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the op does not have the value.
        """
        if isinstance(source, Literal):
            return source.value
        if isinstance(source, FlexOption):
            return self._option(source)
        if isinstance(source, StructField):
            return self._field(source)
        if isinstance(source, SizeFormula):
            return self._size(source)
        assert isinstance(source, QuantizationOf)
        return self._quantization(source)

    def options(self) -> Mapping[str, FlexValue]:
        """The op's options by name, if they are a FlexBuffer map or the op is builtin; otherwise empty."""
        return self._root if isinstance(self._root, Mapping) else {}

    def num_other_bytes(self) -> int:
        """Number of bytes of options that are not a FlexBuffer map (usually a C struct); otherwise 0."""
        return 0 if isinstance(self._root, Mapping) else len(self._options)

    @cached_property
    def _root(self) -> FlexValue | Mapping[str, FlexValue] | None:
        return (
            _find_options(self._options) if self._op.is_custom else read_builtin_options(self._op)
        )

    def _option(self, source: FlexOption) -> Value:
        entries = self.options()
        if source.key in entries:
            value = as_value(entries[source.key])
            if value is None:
                raise self._error(
                    f"the layer uses option '{source.key}', which is not a text, a number or a list of them"
                )
            return value if source.element is None else self._element(value, source)
        if source.default is not None:
            return source.default
        if self.num_other_bytes():
            raise self._error(
                f"the layer uses option '{source.key}' by its name, but the op's options "
                f"({len(self._options)} bytes) are not a FlexBuffer map, so they have no names",
                "If the options are a C struct, describe the layer in a .json file, and use 'field' with a type "
                "and an offset.",
            )
        if not entries:
            needs = f"the layer uses option '{source.key}', but the op has no options"
            raise self._error(needs, "Give a default in the layer's description.")
        what = f"the layer uses option '{source.key}', but the op has only {', '.join(map(repr, entries))}"
        hint = did_you_mean(source.key, entries)
        hint = hint or "Correct the name, or give a default in the layer's description."
        raise self._error(what, hint)

    def _element(self, value: Value, source: FlexOption) -> Value:
        assert source.element is not None
        elements = (value,) if isinstance(value, (bool, int, float, str)) else value
        if source.element >= len(elements):
            has = index_range("element", len(elements))
            raise self._error(
                f"the layer uses element {source.element} of the op's option '{source.key}', but {has}"
            )
        return elements[source.element]

    def _size(self, source: SizeFormula) -> Value:
        formula = Formula(source.text)
        shapes: list[list[tuple[int, ...] | None]] = [[], []]
        for is_output, tensors in enumerate((self._op.inputs, self._op.outputs)):
            asked = {size.tensor for size in formula.tensor_sizes if size.is_output == is_output}
            for index, tensor in enumerate(tensors):
                if tensor is not None and index in asked and not tensor.type.layout.is_static:
                    port = f"{'output' if is_output else 'input'} {index}"
                    raise self._error(
                        f"the layer uses {source.text} as a number, but the shape of {port} ('{tensor.name}') is "
                        "known only at run time",
                        "Read the size in the kernel instead, from a macro such as INPUT0_DIMS or from an "
                        "argument that contains the shape.",
                    )
                shapes[is_output].append(None if tensor is None else tuple(tensor.shape))
        return formula.evaluate((0, 0, 0, 0), shapes[0], shapes[1])

    def _field(self, source: StructField) -> Value:
        type_name = source.element_type.name.lower()
        field = RawField(type_name, source.element_type, source.offset, source.count)
        return read_raw_fields(self._options, [field], f"op '{self._op.name}'")[type_name]

    def _quantization(self, source: QuantizationOf) -> Value:
        tensors = self._op.outputs if source.is_output else self._op.inputs
        name = f"{'output' if source.is_output else 'input'} {source.index}"
        tensor = tensors[source.index] if source.index < len(tensors) else None
        if tensor is None:
            raise self._error(
                f"the layer uses the {source.parameter} of {name}, which the op does not have"
            )
        quantization = tensor.quantization
        if quantization is None or not quantization.scale:
            raise self._error(
                f"the layer uses the {source.parameter} of {name}, which is not quantized"
            )
        if source.parameter == "scale":
            values: Sequence[int | float] = [float(s) for s in quantization.scale]
        else:
            values = list(quantization.zero_point) or [0] * len(quantization.scale)
        return values[0] if len(values) == 1 else tuple(values)

    def _error(self, what: str, hint: str = "") -> LiteRtError:
        return LiteRtError(Status.INVALID_ARGUMENT, what, f"op '{self._op.name}'", hint)


# Most ops of a network have the same options.
_find_options = lru_cache(maxsize=256)(find_flexbuffer_options)


def as_value(value: FlexValue) -> Value | None:
    """Converts a FlexBuffer value that is a number, a text, or a vector of numbers or texts.

    Returns None for a value of another type.
    """
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        scalars = [v for v in value if isinstance(v, (bool, int, float, str))]
        return tuple(scalars) if len(scalars) == len(value) else None
    return None


def find_data_input(op: Op, name: str) -> int:
    """Finds a constant input by its full name, or else by the part of its name after the last slash.

    For example, `weights` matches an input named `weights`, or else the only constant input with a name like
    `net/layer_1/weights:0`. If several inputs have the same full name, the first input is returned. If the input
    is a dequantized constant, the names of the constant and of the dequantized tensor both match.

    Returns:
      The index of the constant input.

    Raises:
      LiteRtError: NOT_FOUND, if no constant input matches (the message contains all names); INVALID_ARGUMENT, if
        two inputs match.
    """
    names: dict[int, list[str]] = {}
    for index, tensor in enumerate(op.inputs):
        if tensor is not None and (stored := stored_constant(tensor)):
            names[index] = [tensor.name, stored.name]
    for index, own in names.items():
        if name in own:
            return index
    found = [index for index, own in names.items() if name in map(_last_part, own)]
    if len(found) == 1:
        return found[0]
    if found:
        status, hint = Status.INVALID_ARGUMENT, "Write the full name of one of them in the layer."
        matching = ", ".join(f"'{names[index][0]}'" for index in found)
        what = f"the layer refers to data '{name}', but several constant inputs match this name: {matching}"
    else:
        has = ", ".join(f"'{own[0]}'" for own in names.values())
        status = Status.NOT_FOUND
        hint = (
            "Write the name of a constant input, or the part of its name after the last slash."
            if has
            else ""
        )
        only = f"only the constant input{'s' if len(names) > 1 else ''} {has}"
        what = f"the layer refers to data '{name}', but the op has {only if has else 'no constant inputs'}"
    raise LiteRtError(status, what, f"op '{op.name}'", hint)


def stored_constant(tensor: Tensor) -> Tensor | None:
    """Returns the tensor itself if it is a constant, or the constant from which a DEQUANTIZE computes the tensor.

    Returns None in all other cases.
    """
    if tensor.is_constant:
        return tensor
    producer = tensor.producer
    stored = producer.inputs[0] if producer and producer.name == "DEQUANTIZE" else None
    return stored if stored is not None and stored.is_constant else None


def _last_part(name: str) -> str:
    """Extracts `weights` from `net/layer/weights:0`."""
    return re.sub(r":\d+$", "", name.rsplit("/", 1)[-1])
