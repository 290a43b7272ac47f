"""Ops, configurations and tensors as C has them, and back; objects keep the memory that their structs point to."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from litert.core.element_type import ElementType
from litert.model.custom_options import find_flexbuffer_options
from litert.model.flexbuffer import FlexValue
from vendor_reference.cpu_layer.abi import (
    MAX_RANK,
    ConfigStruct,
    MessageStruct,
    OperandStruct,
    OpStruct,
    OptionStruct,
    OptionType,
    TensorConfigStruct,
    TensorStruct,
    TensorTypeStruct,
)
from vendor_reference.executable.cpu_op import (
    CpuConfig,
    CpuOp,
    CpuOperand,
    MemoryLayout,
    TensorConfig,
)

_MESSAGE_SIZE = 4096
_ALIGNMENT = 16


class MessageRoom:
    """Room for what a library says of a failure."""

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(_MESSAGE_SIZE)
        self.struct = MessageStruct(
            ctypes.cast(self._text, ctypes.POINTER(ctypes.c_char)), _MESSAGE_SIZE
        )

    def take(self) -> str:
        """What was said, and clears it; "" for nothing."""
        said = self._text.raw.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
        self._text[0] = b"\0"
        return said


class OpMemory:
    """An op as `LiteRtNpuOp`.

    Attributes:
      struct: valid as long as this object.
    """

    def __init__(self, op: CpuOp) -> None:
        inputs = (OperandStruct * len(op.inputs))()
        outputs = (OperandStruct * len(op.outputs))()
        kept: list[Any] = [inputs, outputs]
        for struct, operand in zip((*inputs, *outputs), op.operands, strict=True):
            if operand is not None:
                kept += _fill_operand(struct, operand)
        room = ctypes.create_string_buffer(len(op.options) + _ALIGNMENT)
        address = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
        ctypes.memmove(address, op.options, len(op.options))
        options, memory = _options(op.options)
        self._kept = [*kept, room, options, *memory]
        self.struct = OpStruct(
            op.layer_type.encode(),
            op.name.encode("utf-8", "replace"),
            len(inputs),
            len(outputs),
            inputs,
            outputs,
            len(op.options),
            address if op.options else None,
            len(options),
            options,
        )


class ConfigMemory:
    """A configuration as `LiteRtNpuConfig`, which a library may change."""

    def __init__(self, config: CpuConfig) -> None:
        self._inputs = (TensorConfigStruct * len(config.inputs))()
        self._outputs = (TensorConfigStruct * len(config.outputs))()
        structs = (*self._inputs, *self._outputs)
        for struct, tensor in zip(structs, config.tensors, strict=True):
            _fill_config(struct, tensor)
        self.struct = ConfigStruct(self._inputs, self._outputs, config.dynamic_batch)

    def read(self, op: CpuOp) -> CpuConfig:
        """The configuration as it is now.

        Raises:
          ValueError: in words, for one that cannot be of this op.
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
    """What a configuration is filled in with before a library is asked for one."""

    def simplest(operand: CpuOperand) -> TensorConfig:
        tensor_type = operand.tensor_type
        layout = MemoryLayout.row_order(len(tensor_type.shape))
        return TensorConfig(tensor_type.element_type, layout)

    return CpuConfig(
        tuple(None if operand is None else simplest(operand) for operand in op.inputs),
        tuple(simplest(operand) for operand in op.outputs),
    )


def fill_type(struct: TensorTypeStruct, element_type: ElementType, shape: Sequence[int]) -> None:
    """Writes a `LiteRtNpuTensorType`."""
    struct.element_type = element_type
    struct.rank = len(shape)
    struct.dims[: len(shape)] = list(shape)


def fill_tensor(
    struct: TensorStruct,
    operand: CpuOperand,
    config: TensorConfig,
    strides: Sequence[int] = (),
    offset: int = 0,
) -> None:
    """Writes a `LiteRtNpuTensor`, without data.

    Args:
      struct: all zero.
      operand: of the op.
      config: with its layout settled.
      strides: in elements, of each memory dimension; none where nothing lies between the elements.
      offset: of the first element, in elements.
    """
    assert config.layout is not None
    shape = operand.tensor_type.shape
    dims = config.layout.dims(shape)
    fill_type(struct.type, config.element_type, shape)
    struct.memory_rank = len(dims)
    struct.memory_dims[: len(dims)] = list(dims)
    struct.strides[: len(dims)] = list(strides or config.layout.strides(shape))
    struct.offset = offset


def _fill_operand(struct: OperandStruct, operand: CpuOperand) -> Sequence[object]:
    fill_type(struct.type, operand.tensor_type.element_type, operand.tensor_type.shape)
    struct.is_present = 1
    struct.is_constant = operand.is_constant
    struct.num_scales = len(operand.scales)
    struct.quantized_dimension = operand.dimension
    scales = (ctypes.c_float * len(operand.scales))(*operand.scales)
    zero_points = (ctypes.c_int64 * len(operand.scales))(*operand.zero_points)
    struct.scales, struct.zero_points = scales, zero_points
    return scales, zero_points


def _options(data: bytes) -> tuple[Any, list[Any]]:
    """The entries of a FlexBuffer map that are numbers or texts, and what they point to."""
    root = find_flexbuffer_options(data)
    found, kept = [], []
    for key, value in (root if isinstance(root, Mapping) else {}).items():
        values = _option_values(value)
        if values is None:
            continue
        kept.append(values)
        option_type, is_array, count, memory = values
        option = OptionStruct(key.encode(), option_type, is_array, count, ctypes.addressof(memory))
        found.append(option)
    return (OptionStruct * len(found))(*found), kept


def _option_values(value: FlexValue) -> tuple[OptionType, bool, int, Any] | None:
    if isinstance(value, str):
        text = value.encode()
        return OptionType.TEXT, False, len(text), ctypes.create_string_buffer(text)
    is_array = isinstance(value, Sequence) and not isinstance(value, bytes)
    items = value if isinstance(value, Sequence) and is_array else (value,)
    numbers = [item for item in items if isinstance(item, (bool, int, float))]
    if len(numbers) < len(items):
        return None
    whole = [n for n in numbers if isinstance(n, int) and -(2**63) <= n < 2**63]
    if len(whole) == len(numbers):
        return OptionType.INT, is_array, len(whole), (ctypes.c_int64 * len(whole))(*whole)
    return OptionType.FLOAT, is_array, len(numbers), (ctypes.c_double * len(numbers))(*numbers)


def _fill_config(struct: TensorConfigStruct, tensor: TensorConfig | None) -> None:
    struct.in_place = -1
    if tensor is None:
        return
    struct.element_type = tensor.element_type
    struct.in_place = tensor.in_place
    struct.needs_constant = tensor.needs_constant
    struct.takes_view = tensor.takes_view
    if tensor.layout is not None:
        struct.layout.rank = len(tensor.layout.order)
        struct.layout.order[: struct.layout.rank] = list(tensor.layout.order)
        struct.layout.block[: struct.layout.rank] = list(tensor.layout.blocks)


def _read_config(
    struct: TensorConfigStruct, operand: CpuOperand, which: str, num_inputs: int
) -> TensorConfig:
    own = operand.tensor_type
    try:
        element_type = ElementType(struct.element_type) or own.element_type
    except ValueError:
        raise ValueError(f"{which} of element type {struct.element_type}") from None
    if not element_type.bits or element_type.bits % 8:
        raise ValueError(f"{which} of element type {element_type.name}")
    if not -1 <= struct.in_place < num_inputs:
        raise ValueError(f"{which} in place of input {struct.in_place}")
    rank = struct.layout.rank
    layout: MemoryLayout | None = None
    if not 0 <= rank <= MAX_RANK:
        raise ValueError(f"{which} in memory of {rank} dimensions")
    if rank or not own.shape:
        layout = MemoryLayout(tuple(struct.layout.order[:rank]), tuple(struct.layout.block[:rank]))
        if mistake := layout.find_mistake(len(own.shape)):
            raise ValueError(f"{which}: {mistake}")
    return TensorConfig(
        element_type,
        layout,
        struct.in_place,
        bool(struct.needs_constant),
        bool(struct.takes_view),
    )
