"""A CPU layer as part of its function's `VPUIP.kernel`, and back.

cpu_layer = {implementation = 1 : i64, op = {layer_type = "PReLU", ...}, config = {...}}
"""

from __future__ import annotations

from xdsl.ir import Attribute

from litert.core.checked_json import JsonNode
from litert.core.status import Status
from vendor_reference.compiler.ir.json_attribute import json_attribute, read_json
from vendor_reference.compiler.kernel_spec import CpuKernel
from vendor_reference.executable.cpu_op_json import dump_config, dump_op, parse_config, parse_op


def cpu_kernel_attribute(kernel: CpuKernel) -> Attribute:
    """A CPU layer as an attribute."""
    fields: dict[str, object] = {
        "op": dump_op(kernel.op),
        "implementation": kernel.implementation,
        "config": dump_config(kernel.config),
    }
    if kernel.asked_shapes:
        fields["asked_shapes"] = [list(shape) for shape in kernel.asked_shapes]
    return json_attribute(fields)


def read_cpu_kernel(where: str, attribute: Attribute) -> CpuKernel:
    """The CPU layer that an attribute holds.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the element that is not as `cpu_kernel_attribute` makes it.
    """
    node = JsonNode(read_json(attribute), "$", where, Status.INVALID_ARGUMENT)
    fields = node.fields(("op", "implementation", "config"), ("asked_shapes",))
    op = parse_op(fields["op"])
    implementation = fields["implementation"].integer(0, 2**31 - 1)
    asked: tuple[tuple[int, ...], ...] = ()
    if "asked_shapes" in fields:
        shapes = fields["asked_shapes"].items(len(op.outputs), len(op.outputs))
        ranks = [len(operand.tensor_type.shape) for operand in op.outputs]
        asked = tuple(
            tuple(n.integer(-1, 2**31 - 1) for n in shape.items(rank, rank))
            for shape, rank in zip(shapes, ranks, strict=True)
        )
    return CpuKernel(op, implementation, parse_config(fields["config"], op), asked)
