"""Converts ops, configurations and tensors to the C structs of `litert_npu/cpu_layer.h`, and back.

Python objects own the memory of the C structs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from litert.model.custom_options import find_flexbuffer_options
from litert.model.flexbuffer import FlexValue
from vendor_reference.cpu_layer.definitions import ffi
from vendor_reference.executable.cpu_op import (
    MAX_RANK,
    CpuConfig,
    CpuOp,
    CpuOperand,
    MemoryLayout,
    TensorConfig,
)

_MESSAGE_SIZE = 4096
_ALIGNMENT = 16
_INT, _FLOAT, _TEXT = range(3)  # kLiteRtNpuOptionInt and so on

_Values = Mapping[str, Any]
"""Fields of a C struct in the form that cffi accepts; missing fields are 0, or stay unchanged."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """The memory of a tensor's elements.

    `data` is the address, or 0 if there is no address; `strides` and `offset` are the same as in `CpuPlace`.
    """

    strides: Sequence[int] = ()
    offset: int = 0
    data: int = 0


class MessageRoom:
    """Memory into which a library writes a message about a failure."""

    def __init__(self) -> None:
        self._text = ffi.new("char[]", _MESSAGE_SIZE)
        self.struct = ffi.new("LiteRtNpuMessage*", (self._text, _MESSAGE_SIZE))

    def take(self) -> str:
        """Returns and clears the library's message; "" if there is no message."""
        said: str = ffi.string(self._text).decode("utf-8", "replace").strip()
        self._text[0] = b"\0"
        return said


class OpMemory:
    """An op as a C struct `LiteRtNpuOp`, and the memory to which it refers.

    Attributes:
      struct: The C struct, which is valid as long as this object exists.
    """

    def __init__(self, op: CpuOp) -> None:
        self._kept: list[object] = []
        options = self._options(op.options)
        self.struct = self._new(
            "LiteRtNpuOp*",
            {
                "layer_type": self._new("char[]", op.layer_type.encode()),
                "name": self._new("char[]", op.name.encode("utf-8", "replace")),
                "num_inputs": len(op.inputs),
                "num_outputs": len(op.outputs),
                "inputs": self._new("LiteRtNpuOperand[]", list(map(self._operand, op.inputs))),
                "outputs": self._new("LiteRtNpuOperand[]", list(map(self._operand, op.outputs))),
                "options_size": len(op.options),
                "options_data": self._aligned(op.options) if op.options else ffi.NULL,
                "num_options": len(options),
                "options": self._new("LiteRtNpuOption[]", options),
            },
        )

    def _new(self, c_type: str, values: object) -> Any:
        memory = ffi.new(c_type, values)
        self._kept.append(memory)
        return memory

    def _aligned(self, data: bytes) -> Any:
        room = self._new("char[]", len(data) + _ALIGNMENT)
        place = room + -int(ffi.cast("uintptr_t", room)) % _ALIGNMENT
        ffi.memmove(place, data, len(data))
        return place

    def _operand(self, operand: CpuOperand | None) -> _Values:
        if operand is None:
            return {}
        return {
            "type": type_values(operand.tensor_type),
            "is_present": 1,
            "is_constant": operand.is_constant,
            "num_scales": len(operand.scales),
            "quantized_dimension": operand.dimension,
            "scales": self._new("float[]", operand.scales),
            "zero_points": self._new("int64_t[]", operand.zero_points),
        }

    def _options(self, data: bytes) -> list[_Values]:
        """Returns the entries of a FlexBuffer map that are numbers or texts."""
        root = find_flexbuffer_options(data)
        return [
            {"key": self._new("char[]", key.encode()), **values}
            for key, value in (root if isinstance(root, Mapping) else {}).items()
            if (values := self._option_values(value))
        ]

    def _option_values(self, value: FlexValue) -> _Values:
        if isinstance(value, str):
            text = value.encode()
            return {"type": _TEXT, "count": len(text), "values": self._new("char[]", text)}
        is_array = isinstance(value, Sequence) and not isinstance(value, bytes)
        items = value if isinstance(value, Sequence) and is_array else (value,)
        numbers = [item for item in items if isinstance(item, (bool, int, float))]
        if len(numbers) < len(items):
            return {}
        is_whole = all(isinstance(n, int) and -(2**63) <= n < 2**63 for n in numbers)
        return {
            "type": _INT if is_whole else _FLOAT,
            "is_array": is_array,
            "count": len(numbers),
            "values": self._new("int64_t[]" if is_whole else "double[]", numbers),
        }


class ConfigMemory:
    """A configuration as a C struct `LiteRtNpuConfig`, which a library may change."""

    def __init__(self, config: CpuConfig) -> None:
        c_type = "LiteRtNpuTensorConfig[]"
        self._inputs = ffi.new(c_type, list(map(_config_values, config.inputs)))
        self._outputs = ffi.new(c_type, list(map(_config_values, config.outputs)))
        self.struct = ffi.new(
            "LiteRtNpuConfig*", (self._inputs, self._outputs, config.dynamic_batch)
        )

    def read(self, op: CpuOp) -> CpuConfig:
        """Returns the configuration that the C struct currently contains.

        Raises:
          ValueError: The configuration does not fit the op; the exception's text gives the reason.
        """
        inputs = [
            None if operand is None else _read_config(struct, operand, f"input {i}", 0)
            for i, (struct, operand) in enumerate(zip(self._inputs, op.inputs, strict=True))
        ]
        outputs = [
            _read_config(struct, operand, f"output {i}", len(op.inputs))
            for i, (struct, operand) in enumerate(zip(self._outputs, op.outputs, strict=True))
        ]
        return CpuConfig(tuple(inputs), tuple(outputs), bool(self.struct.dynamic_batch))


def simplest_config(op: CpuOp) -> CpuConfig:
    """Returns the initial configuration of a C struct, before a library sets the fields of the struct."""

    def simplest(operand: CpuOperand) -> TensorConfig:
        tensor_type = operand.tensor_type
        layout = MemoryLayout.row_order(len(tensor_type.shape))
        return TensorConfig(tensor_type.element_type, layout)

    return CpuConfig(
        tuple(None if operand is None else simplest(operand) for operand in op.inputs),
        tuple(simplest(operand) for operand in op.outputs),
    )


def type_values(tensor_type: RankedTensorType) -> _Values:
    """Returns the fields of a C struct `LiteRtNpuTensorType`."""
    shape = list(tensor_type.shape)
    return {"element_type": tensor_type.element_type, "rank": len(shape), "dims": shape}


def place_tensors(
    operands: Sequence[CpuOperand | None],
    configs: Sequence[TensorConfig | None],
    places: Sequence[TensorPlace | None],
) -> Any:
    """Returns `LiteRtNpuTensor` structs for tensors; the structs of omitted tensors contain zeros.

    A tensor without strides is dense.
    """
    structs = ffi.new("LiteRtNpuTensor[]", len(operands))
    set_shapes(structs, operands, configs)
    for struct, operand, config, place in zip(structs, operands, configs, places, strict=True):
        if operand is not None and config is not None and place is not None:
            assert config.layout is not None
            strides = place.strides or config.layout.strides(operand.tensor_type.shape)
            struct.strides[0 : len(strides)] = list(strides)
            struct.offset = place.offset
            struct.data = ffi.cast("void*", place.data)
    return structs


def set_shapes(
    structs: Any, operands: Sequence[CpuOperand | None], configs: Sequence[TensorConfig | None]
) -> None:
    """Sets the types and shapes in `LiteRtNpuTensor` structs; the strides stay unchanged."""
    for struct, operand, config in zip(structs, operands, configs, strict=True):
        if operand is not None and config is not None:
            assert config.layout is not None  # the layout is fixed
            shape = operand.tensor_type.shape
            dims = config.layout.dims(shape)
            struct.type = {**type_values(operand.tensor_type), "element_type": config.element_type}
            struct.memory_rank = len(dims)
            struct.memory_dims[0 : len(dims)] = list(dims)


def _config_values(tensor: TensorConfig | None) -> _Values:
    if tensor is None:
        return {"in_place": -1}
    layout = tensor.layout or MemoryLayout((), ())
    return {
        "element_type": tensor.element_type,
        "in_place": tensor.in_place,
        "needs_constant": tensor.needs_constant,
        "takes_view": tensor.takes_view,
        "layout": (len(layout.order), layout.order, layout.blocks),
    }


def _read_config(struct: Any, operand: CpuOperand, which: str, num_inputs: int) -> TensorConfig:
    own = operand.tensor_type
    try:
        element_type = ElementType(struct.element_type) or own.element_type
    except ValueError:
        raise ValueError(f"{which} cannot have element type {struct.element_type}") from None
    if not element_type.bits or element_type.bits % 8:
        raise ValueError(f"{which} cannot have element type {element_type.name}")
    if not -1 <= struct.in_place < num_inputs:
        allowed = f"from -1 to {num_inputs - 1}" if num_inputs else "-1"
        raise ValueError(f"in_place of {which} is {struct.in_place}, but must be {allowed}")
    rank = struct.layout.rank
    layout: MemoryLayout | None = None
    if not 0 <= rank <= MAX_RANK:
        raise ValueError(f"{which} cannot have a memory layout of {rank} dimensions")
    if rank or not own.shape:
        layout = MemoryLayout(
            tuple(struct.layout.order[0:rank]), tuple(struct.layout.block[0:rank])
        )
        if mistake := layout.find_mistake(len(own.shape)):
            raise ValueError(f"{which}: {mistake}")
    return TensorConfig(
        element_type,
        layout,
        struct.in_place,
        bool(struct.needs_constant),
        bool(struct.takes_view),
    )
