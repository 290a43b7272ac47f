"""The description of an op for a CPU layer, and the configuration of its kernel (see `litert_npu/cpu_layer.h`).

Op descriptions and configurations are stored as plain data in executables and in the IR. The compiler and its
child process also exchange them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from litert.core.checked_json import JsonNode
from litert.core.codec import (
    BOOLEAN,
    NUMBER,
    TEXT,
    Renamed,
    checked,
    converted,
    frozen_array,
    hexadecimal,
    integer,
    named,
    nullable,
    record,
    row,
)
from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.sizes import MOST
from litert.core.tensor_type import RankedTensorType

MAX_RANK = 16
"""Maximum number of dimensions of a tensor, and of its memory layout (in which blocks count as dimensions)."""

MOST_DIM = 2**31 - 1
"""Maximum number of elements of a tensor."""

_MOST_IN_BLOCK = 1 << 16
_LETTERS = "nhwc"


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """The memory layout of a tensor: its memory dimensions from the outermost to the innermost.

    Attributes:
      order: For each memory dimension, the tensor dimension to which it belongs; a blocked tensor dimension occurs
        twice.
      blocks: For each memory dimension, the block size if the dimension counts elements within a block, otherwise
        0.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]

    @classmethod
    def row_order(cls, rank: int) -> MemoryLayout:
        """Creates the row-major layout, in which models store tensors."""
        return cls(tuple(range(rank)), (0,) * rank)

    @property
    def block_of(self) -> dict[int, int]:
        """The block size of each blocked dimension, by tensor dimension."""
        return {d: b for d, b in zip(self.order, self.blocks, strict=True) if b}

    @property
    def is_blocked(self) -> bool:
        return any(self.blocks)

    def find_mistake(self, rank: int) -> str:
        """Returns the reason why the layout does not fit tensors of a rank; "" if the layout fits."""
        if len(self.order) != len(self.blocks):
            return (
                f"the layout has {count_text(len(self.order), 'memory dimension')} and "
                f"{count_text(len(self.blocks), 'block size')}, but needs a block size for each "
                "memory dimension"
            )
        if len(self.order) > MAX_RANK:
            return (
                f"the layout has {len(self.order)} memory dimensions, but must have at most "
                f"{MAX_RANK}"
            )
        whole = [d for d, b in zip(self.order, self.blocks, strict=True) if not b]
        if sorted(whole) != list(range(rank)):
            return (
                f"the layout has the dimensions {whole}, but needs each of the tensor's dimensions "
                f"{list(range(rank))} once"
            )
        seen: set[int] = set()
        blocked: set[int] = set()
        for dimension, block in zip(self.order, self.blocks, strict=True):
            if not block:
                seen.add(dimension)
            elif not 0 < block <= _MOST_IN_BLOCK or dimension not in seen or dimension in blocked:
                return f"a block of {block} elements is not allowed for dimension {dimension}"
            else:
                blocked.add(dimension)
        return ""

    def dims(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the sizes of the memory dimensions for a tensor's shape.

        The last block is padded if necessary.
        """
        block_of = self.block_of
        return tuple(
            block or -(-shape[dimension] // block_of.get(dimension, 1))
            for dimension, block in zip(self.order, self.blocks, strict=True)
        )

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the strides of the memory dimensions for dense memory, in elements."""
        dims = self.dims(shape)
        return tuple(prod(dims[i + 1 :]) for i in range(len(dims)))

    def num_elements(self, shape: Sequence[int]) -> int:
        """Returns the number of elements that a tensor takes in memory, including padding."""
        return prod(self.dims(shape))

    def __str__(self) -> str:
        """The name of the layout, such as `nhwc` or `nChw8c`.

        For ranks other than 4, digits replace the letters.
        """
        names = _LETTERS if not self.order or max(self.order) == 3 else "0123456789abcdef"
        outer = self.block_of
        return "".join(
            f"{block}{names[d]}" if block else names[d].upper() if d in outer else names[d]
            for d, block in zip(self.order, self.blocks, strict=True)
        )


@dataclass(frozen=True, slots=True)
class CpuOperand:
    """An input or output of the op in the model.

    Attributes:
      scales: Quantization scales: one scale, or one scale per index of `dimension`; empty if the tensor is not
        quantized.
      zero_points: Quantization zero points, as many as scales.
    """

    tensor_type: RankedTensorType
    is_constant: bool = False
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    dimension: int = 0

    def with_shape(self, shape: Sequence[int]) -> CpuOperand:
        """Returns a copy of the operand with another shape."""
        tensor_type = RankedTensorType.of(self.tensor_type.element_type, tuple(shape))
        return replace(self, tensor_type=tensor_type)


@dataclass(frozen=True, slots=True)
class CpuOp:
    """The description of an op for a library of CPU layers.

    Attributes:
      layer_type: Name of the layer in the library that implements the op.
      name: Name of the op's first output, for messages.
      inputs: The op's inputs; None for an omitted input.
      options: The op's options in the model.
    """

    layer_type: str
    name: str
    inputs: tuple[CpuOperand | None, ...]
    outputs: tuple[CpuOperand, ...]
    options: bytes = b""

    @property
    def place(self) -> str:
        """The op's layer and its first output, for messages."""
        return f"layer '{self.layer_type}', output '{self.name}'"

    @property
    def operands(self) -> Sequence[CpuOperand | None]:
        """The op's inputs and then its outputs, in one list."""
        return (*self.inputs, *self.outputs)

    def with_output_shapes(self, shapes: Sequence[Sequence[int]]) -> CpuOp:
        """Returns a copy of the op with other output shapes."""
        outputs = [o.with_shape(s) for o, s in zip(self.outputs, shapes, strict=True)]
        return replace(self, outputs=tuple(outputs))


@dataclass(frozen=True, slots=True)
class TensorConfig:
    """The element type and layout that a kernel requires for a tensor.

    Attributes:
      element_type: Element type of the tensor in memory.
      layout: Memory layout; None if the kernel accepts any layout. In this case, the compiler chooses a layout
        before it creates the kernel.
      in_place: For an output, the index of the input whose memory the output may share; -1 for none.
    """

    element_type: ElementType
    layout: MemoryLayout | None
    in_place: int = -1
    needs_constant: bool = False
    takes_view: bool = False


@dataclass(frozen=True, slots=True)
class CpuConfig:
    """The configuration of a kernel for each input and output of its op; None for an omitted input."""

    inputs: tuple[TensorConfig | None, ...]
    outputs: tuple[TensorConfig, ...]
    dynamic_batch: bool = False

    @property
    def tensors(self) -> Sequence[TensorConfig | None]:
        """The configurations of the inputs and then of the outputs, in one list."""
        return (*self.inputs, *self.outputs)


def check_channels(
    node: JsonNode,
    scales: Sequence[float],
    zero_points: Sequence[int],
    dimension: int,
    tensor_type: RankedTensorType,
) -> None:
    """Checks that a tensor has one scale, or one scale per index of the quantized dimension."""
    shape = tensor_type.shape
    if dimension:
        node.at("dimension").integer(0, max(len(shape) - 1, 0))
    channels = shape[dimension] if shape else 1
    if len(scales) not in (1, channels) or len(zero_points) != len(scales):
        counts = f"1 or {channels}" if channels != 1 else "1"
        raise node.error(
            f"{tensor_type} has {count_text(len(scales), 'scale')} and "
            f"{count_text(len(zero_points), 'zero point')}, but needs {counts} of each, because dimension "
            f"{dimension} has {count_text(channels, 'element')}"
        )


def check_config(node: JsonNode, config: CpuConfig, op: CpuOp) -> None:
    """Checks that a configuration fits the tensors of its op."""
    num_inputs, num_outputs = len(op.inputs), len(op.outputs)
    inputs = node.at("inputs").items(num_inputs, num_inputs)
    nodes = [*inputs, *node.at("outputs").items(num_outputs, num_outputs)]
    parts = zip(nodes, config.tensors, op.operands, strict=True)
    for index, (part, tensor, operand) in enumerate(parts):
        if operand is not None:
            _check_tensor(part, tensor, operand, num_inputs if index >= num_inputs else 0)
        elif tensor is not None:
            raise part.error("a configuration is given for an omitted input")


def _check_tensor(
    node: JsonNode, tensor: TensorConfig | None, operand: CpuOperand, num_inputs: int
) -> None:
    if tensor is None or tensor.layout is None:
        raise node.error("the configuration has no layout")
    bits, layout = tensor.element_type.bits, tensor.layout
    if not bits or bits % 8:
        raise node.at("element_type").error(
            f"a kernel cannot take elements of type {tensor.element_type.name}"
        )
    if mistake := layout.find_mistake(len(operand.tensor_type.shape)):
        raise node.error(mistake)
    if layout.num_elements(operand.tensor_type.shape) > MOST // bits:
        raise node.error(f"{operand.tensor_type} in {layout} is too large")
    if tensor.in_place >= num_inputs:
        node.at("in_place").integer(-1, num_inputs - 1)


@dataclass(frozen=True, slots=True)
class _WrittenConfig:
    """A `TensorConfig` in its stored form, in which the fields of the layout are fields of the record."""

    element_type: ElementType
    order: tuple[int, ...]
    blocks: tuple[int, ...] = ()
    in_place: int = -1
    needs_constant: bool = False
    takes_view: bool = False


def _tensor_config(written: _WrittenConfig) -> TensorConfig:
    layout = MemoryLayout(written.order, written.blocks or (0,) * len(written.order))
    flags = (written.needs_constant, written.takes_view)
    return TensorConfig(written.element_type, layout, written.in_place, *flags)


def _written_config(config: TensorConfig) -> _WrittenConfig:
    layout = config.layout
    assert layout is not None  # the layout has been chosen
    blocks = layout.blocks if layout.is_blocked else ()
    flags = (config.needs_constant, config.takes_view)
    return _WrittenConfig(config.element_type, layout.order, blocks, config.in_place, *flags)


def _check_blocks(node: JsonNode, config: _WrittenConfig) -> None:
    if config.blocks:
        node.at("blocks").items(len(config.order), len(config.order))


def _check_operand(node: JsonNode, operand: CpuOperand) -> None:
    if operand.scales or operand.zero_points or operand.dimension:
        check_channels(
            node, operand.scales, operand.zero_points, operand.dimension, operand.tensor_type
        )


def _type_mistake(tensor_type: RankedTensorType) -> str:
    element_type, shape = tensor_type.element_type, tensor_type.shape
    if element_type.bits and prod(shape) <= MOST // element_type.bits:
        return ""
    what = "is too large" if element_type.bits else "is not supported"
    return f"a tensor of type {element_type.name} and shape {list(shape)} {what}"


_ELEMENT_TYPE = named(ElementType.__members__)
_DIMS = frozen_array(integer(0, MOST_DIM), 0, MAX_RANK)

TENSOR_TYPE = checked(
    row(RankedTensorType.of, element_type=_ELEMENT_TYPE, shape=_DIMS), _type_mistake
)
"""Codec of a tensor type; reading also checks the tensor's size in bytes."""

_OPERAND = record(
    CpuOperand,
    tensor_type=Renamed("type", TENSOR_TYPE),
    is_constant=BOOLEAN,
    scales=frozen_array(NUMBER, 1),
    zero_points=frozen_array(integer(-(2**63), 2**63 - 1)),
    dimension=integer(0, MOST_DIM),
    always=lambda operand: ("dimension",) if operand.scales else (),
    check=_check_operand,
)

CPU_OP = record(
    CpuOp,
    layer_type=TEXT,
    name=TEXT,
    inputs=frozen_array(nullable(_OPERAND)),
    outputs=frozen_array(_OPERAND, 1),
    options=hexadecimal(),
    always=lambda _: ("options",),
)
"""An op."""

_CONFIG = converted(
    record(
        _WrittenConfig,
        element_type=_ELEMENT_TYPE,
        order=_DIMS,
        blocks=_DIMS,
        in_place=integer(-1, MOST_DIM),
        needs_constant=BOOLEAN,
        takes_view=BOOLEAN,
        check=_check_blocks,
    ),
    _tensor_config,
    _written_config,
)

CPU_CONFIG = record(
    CpuConfig,
    inputs=frozen_array(nullable(_CONFIG)),
    outputs=frozen_array(_CONFIG),
    dynamic_batch=BOOLEAN,
    always=lambda _: ("dynamic_batch",),
)
"""Codec of a configuration in which all layouts are chosen; `check_config` compares it with its op."""
