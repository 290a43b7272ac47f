"""CPU layers' ops and configurations as JSON: in an executable, and between the compiler and its child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from litert.core.checked_json import JsonNode
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from vendor_reference.executable.cpu_op import (
    MAX_RANK,
    CpuConfig,
    CpuOp,
    CpuOperand,
    MemoryLayout,
    TensorConfig,
)

MOST = 2**62
"""Of any size or offset: sums of two stay below what a C size_t holds."""

_INT32 = 2**31 - 1


def dump_type(tensor_type: RankedTensorType) -> list[object]:
    """A tensor's type."""
    return [tensor_type.element_type.name, list(tensor_type.shape)]


def parse_type(node: JsonNode) -> RankedTensorType:
    """What `dump_type` made; its size in bytes is checked."""
    name, dimensions = node.items(2, 2)
    element_type = ElementType[name.text(list(ElementType.__members__))]
    shape = tuple(n.integer(0, _INT32) for n in dimensions.items(0, MAX_RANK))
    if not element_type.bits or prod(shape) > MOST // element_type.bits:
        raise node.error(f"{element_type.name} of shape {list(shape)}")
    return RankedTensorType.of(element_type, shape)


def dump_op(op: CpuOp) -> Mapping[str, object]:
    """An op."""
    return {
        "layer_type": op.layer_type,
        "name": op.name,
        "inputs": [None if o is None else _dump_operand(o) for o in op.inputs],
        "outputs": [_dump_operand(o) for o in op.outputs],
        "options": op.options.hex(),
    }


def parse_op(node: JsonNode) -> CpuOp:
    """What `dump_op` made."""
    fields = node.fields(("layer_type", "name", "inputs", "outputs", "options"))
    try:
        options = bytes.fromhex(fields["options"].text())
    except ValueError:
        raise fields["options"].error("not hex") from None
    return CpuOp(
        fields["layer_type"].text(),
        fields["name"].text(),
        tuple(None if n.value is None else _parse_operand(n) for n in fields["inputs"].items()),
        tuple(_parse_operand(n) for n in fields["outputs"].items(1)),
        options,
    )


def dump_config(config: CpuConfig) -> Mapping[str, object]:
    """A configuration with settled layouts."""
    return {
        "inputs": [None if t is None else _dump_tensor(t) for t in config.inputs],
        "outputs": [_dump_tensor(t) for t in config.outputs],
        "dynamic_batch": config.dynamic_batch,
    }


def parse_config(node: JsonNode, op: CpuOp) -> CpuConfig:
    """What `dump_config` made, which must fit the op."""
    fields = node.fields(("inputs", "outputs", "dynamic_batch"))
    inputs = fields["inputs"].items(len(op.inputs), len(op.inputs))
    outputs = fields["outputs"].items(len(op.outputs), len(op.outputs))
    return CpuConfig(
        tuple(
            None if o is None else _parse_tensor(n, o, 0)
            for n, o in zip(inputs, op.inputs, strict=True)
        ),
        tuple(_parse_tensor(n, o, len(inputs)) for n, o in zip(outputs, op.outputs, strict=True)),
        fields["dynamic_batch"].boolean(),
    )


def _dump_operand(operand: CpuOperand) -> Mapping[str, object]:
    fields: dict[str, object] = {"type": dump_type(operand.tensor_type)}
    if operand.is_constant:
        fields["is_constant"] = True
    if operand.scales:
        fields["scales"] = list(operand.scales)
        fields["zero_points"] = list(operand.zero_points)
        fields["dimension"] = operand.dimension
    return fields


def _parse_operand(node: JsonNode) -> CpuOperand:
    fields = node.fields(("type",), ("is_constant", "scales", "zero_points", "dimension"))
    tensor_type = parse_type(fields["type"])
    is_constant = "is_constant" in fields and fields["is_constant"].boolean()
    if "scales" not in fields:
        return CpuOperand(tensor_type, is_constant)
    fields = node.fields(("type", "scales", "zero_points", "dimension"), ("is_constant",))
    scales = tuple(n.number() for n in fields["scales"].items(1))
    zero_points = tuple(n.integer(-(2**63), 2**63 - 1) for n in fields["zero_points"].items())
    dimension = fields["dimension"].integer(0, max(len(tensor_type.shape) - 1, 0))
    channels = tensor_type.shape[dimension] if tensor_type.shape else 1
    if len(scales) not in (1, channels) or len(zero_points) != len(scales):
        raise node.error(f"{len(scales)} scales, {len(zero_points)} zero points of {tensor_type}")
    return CpuOperand(tensor_type, is_constant, scales, zero_points, dimension)


def _dump_tensor(tensor: TensorConfig) -> Mapping[str, object]:
    assert tensor.layout is not None
    fields: dict[str, object] = {
        "element_type": tensor.element_type.name,
        "order": list(tensor.layout.order),
    }
    if tensor.layout.is_blocked:
        fields["blocks"] = list(tensor.layout.blocks)
    if tensor.in_place >= 0:
        fields["in_place"] = tensor.in_place
    fields.update(
        {name: True for name in ("needs_constant", "takes_view") if getattr(tensor, name)}
    )
    return fields


def _parse_tensor(node: JsonNode, operand: CpuOperand, num_inputs: int) -> TensorConfig:
    fields = node.fields(
        ("element_type", "order"), ("blocks", "in_place", "needs_constant", "takes_view")
    )
    element_type = ElementType[fields["element_type"].text(list(ElementType.__members__))]
    if not element_type.bits or element_type.bits % 8:
        raise fields["element_type"].error(f"elements of type {element_type.name}")
    order = _integers(fields["order"].items(0, MAX_RANK))
    blocks = (0,) * len(order)
    if "blocks" in fields:
        blocks = _integers(fields["blocks"].items(len(order), len(order)))
    layout = MemoryLayout(order, blocks)
    if mistake := layout.find_mistake(len(operand.tensor_type.shape)):
        raise node.error(mistake)
    if layout.num_elements(operand.tensor_type.shape) > MOST // element_type.bits:
        raise node.error(f"{operand.tensor_type} in {layout} is too large")
    return TensorConfig(
        element_type,
        layout,
        fields["in_place"].integer(-1, num_inputs - 1) if "in_place" in fields else -1,
        "needs_constant" in fields and fields["needs_constant"].boolean(),
        "takes_view" in fields and fields["takes_view"].boolean(),
    )


def _integers(nodes: Sequence[JsonNode]) -> tuple[int, ...]:
    return tuple(n.integer(0, _INT32) for n in nodes)
