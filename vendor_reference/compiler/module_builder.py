"""Collects what the functions of an executable share: programs and constants, each once."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.graph import Tensor
from vendor_reference.custom_layers.cl_types import STRUCT_FORMATS
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.custom_layers.value_sources import Value
from vendor_reference.executable.executable import (
    Constant,
    Dequantization,
    Executable,
    Function,
    Program,
    Source,
)


class ModuleBuilder:
    """An executable in the making."""

    def __init__(self, soc_model: str) -> None:
        self._soc_model = soc_model
        self._functions: list[Function] = []
        self._programs: dict[Program, int] = {}
        self._constants: list[Constant] = []
        self._places: dict[object, int] = {}
        self._sources: dict[str, tuple[Sequence[Source], Sequence[Source]]] = {}

    def program(self, layer: CustomLayer, prelude: str) -> int:
        """The index of a layer's program with that prelude."""
        if layer.op_name not in self._sources:
            self._sources[layer.op_name] = (
                tuple(_source(layer, f) for f in layer.sources),
                tuple(_source(layer, f) for f in layer.headers),
            )
        sources, headers = self._sources[layer.op_name]
        return self.add_program(Program(prelude, sources, layer.build_options, headers))

    def add_program(self, program: Program) -> int:
        """The index of a program, whose sequences are tuples."""
        return self._programs.setdefault(program, len(self._programs))

    def tensor_constant(self, tensor: Tensor, dequantization: Dequantization | None = None) -> int:
        """The index of a constant tensor; those that share their data are stored once."""
        blob = tensor.buffer.blob
        assert blob is not None
        tensor_type = RankedTensorType.of(tensor.element_type, tensor.shape)
        key = (id(blob), tensor_type, repr(dequantization))  # the constant keeps the blob
        return self._constant(key, Constant(tensor_type, blob, dequantization))

    def value_constant(self, element_type: ElementType, value: Value) -> int:
        """The index of a constant with these numbers."""
        data = pack_numbers(element_type, value)
        shape = (len(data) * 8 // element_type.bits,)
        tensor_type = RankedTensorType.of(element_type, shape)
        return self._constant((data, tensor_type), Constant(tensor_type, Blob(data)))

    def add_function(self, function: Function) -> None:
        """Adds a function behind those there are."""
        self._functions.append(function)

    def build(self) -> Executable:
        """The executable."""
        return Executable(self._soc_model, self._functions, list(self._programs), self._constants)

    def _constant(self, key: object, constant: Constant) -> int:
        if key not in self._places:
            self._places[key] = len(self._constants)
            self._constants.append(constant)
        return self._places[key]


def pack_numbers(element_type: ElementType, value: Value) -> bytes:
    """A number, or several, as a kernel reads them.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a text, or a number that the type cannot hold.
    """
    values = (value,) if isinstance(value, (bool, int, float, str)) else value
    letter = STRUCT_FORMATS[element_type]
    numbers: list[int | float] = []
    for number in values:
        if isinstance(number, str):
            raise _not_a(element_type, f"the text '{number}'")
        if letter in "fd":
            numbers.append(float(number))
        elif isinstance(number, float) and not number.is_integer():
            raise _not_a(element_type, str(number))
        else:
            numbers.append(int(number))
    try:
        return struct.pack(f"<{len(numbers)}{letter}", *numbers)
    except (struct.error, OverflowError) as error:
        shown = str(numbers[0]) if len(numbers) == 1 else f"one of {len(numbers)} numbers"
        raise _not_a(element_type, shown) from error


def _source(layer: CustomLayer, file: LayerFile) -> Source:
    return Source(layer.asset_name(file), file.path, file.digest)


def _not_a(element_type: ElementType, what: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_ARGUMENT, f"{what} where {element_type.name.lower()} is expected"
    )
