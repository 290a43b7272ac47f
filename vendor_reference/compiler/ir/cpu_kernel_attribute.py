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
    return json_attribute(
        {
            "op": dump_op(kernel.op),
            "implementation": kernel.implementation,
            "config": dump_config(kernel.config),
        }
    )


def read_cpu_kernel(where: str, attribute: Attribute) -> CpuKernel:
    """The CPU layer that an attribute holds.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the element that is not as `cpu_kernel_attribute` makes it.
    """
    node = JsonNode(read_json(attribute), "$", where, Status.INVALID_ARGUMENT)
    fields = node.fields(("op", "implementation", "config"))
    op = parse_op(fields["op"])
    implementation = fields["implementation"].integer(0, 2**31 - 1)
    return CpuKernel(op, implementation, parse_config(fields["config"], op))
