"""Finds the strides that layers of an IE function require, and the tensors that need no copy to have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import CallOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.types import ShapeType, element_strides, shape_of
from vendor_reference.compiler.layer_ports import LayerFinder
from vendor_reference.compiler.levels.ie import CustomBinaryLayerOp, TransferOp
from vendor_reference.compiler.tensor_requirements import TensorRequirement, check_strides


@dataclass(frozen=True, slots=True)
class StridedPort:
    """An input or output for which a layer requires strides."""

    is_output: bool
    index: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AskedStrides:
    """The strides that the layers of a function require.

    Attributes:
      ports: Inputs and outputs with strides, by layer.
      made_so: Tensors that need no copy to get the required strides, because only this layer and transfers read
        and write them.
    """

    ports: dict[Operation, list[StridedPort]] = field(default_factory=dict)
    made_so: dict[SSAValue, tuple[int, ...]] = field(default_factory=dict)


def find_asked_strides(finder: LayerFinder, block: Block, where: str) -> AskedStrides:
    """Finds the strides that calls and custom binary layers require.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the required strides are impossible for the shape of a tensor; UNSUPPORTED,
        if a tensor with required strides has a shape that is known only at run time.
    """
    found = AskedStrides()
    for op in block.ops:
        layer = finder.find(op) if isinstance(op, (CallOp, CustomBinaryLayerOp)) else None
        if layer is None:
            continue
        first = int(isinstance(op, CustomBinaryLayerOp))  # its code
        for place, asked in layer.inputs:
            value = op.operands[place]
            writers = [value.owner] if value.has_one_use() else []
            _add(found, op, _Port(False, place - first, value, asked), writers, where)
        for index, (result, asked) in enumerate(layer.outputs):
            readers = [use.operation for use in result.uses]
            _add(found, op, _Port(True, index, result, asked), readers, where)
    return found


@dataclass(frozen=True, slots=True)
class _Port:
    is_output: bool
    index: int
    value: SSAValue
    asked: TensorRequirement


def _add(
    found: AskedStrides, op: Operation, port: _Port, others: Sequence[object], where: str
) -> None:
    """Adds a tensor for which a layer requires strides.

    `others` are the other ops that write or read the tensor.
    """
    strides = port.asked.strides
    if isinstance(strides, bool):
        return
    check_strides(port.asked, shape_of(port.value.type), where)
    if any(isinstance(operand.type, ShapeType) for operand in op.operands):
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"a layer requires the strides {list(strides)} for a tensor, but the tensor's shape is known only "
            "at run time",
            where,
            "Convert the model with fixed shapes, or do not require strides for this tensor.",
        )
    found.ports.setdefault(op, []).append(StridedPort(port.is_output, port.index, strides))
    if others and all(isinstance(other, TransferOp) for other in others):
        found.made_so[port.value] = strides


def lies_so(ir_type: Attribute, strides: Sequence[int]) -> bool:
    """Returns whether a buffer has these strides in each dimension with more than one element."""
    own, _ = element_strides(ir_type)
    sizes = zip(shape_of(ir_type), own, strides, strict=True)
    return all(size == 1 or mine == asked for size, mine, asked in sizes)
