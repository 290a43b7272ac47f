"""A CPU layer as part of its function's `VPUIP.kernel`, and back.

cpu_layer = {op = {layer_type = "PReLU", ...}, implementation = 1 : i64, config = {...}}
"""

from __future__ import annotations

from litert.core.checked_json import JsonNode
from litert.core.codec import frozen_array, integer, record
from vendor_reference.compiler.kernel_spec import CpuKernel
from vendor_reference.executable.cpu_op import CPU_CONFIG, CPU_OP, MOST_DIM, check_config


def _check(node: JsonNode, kernel: CpuKernel) -> None:
    check_config(node.at("config"), kernel.config, kernel.op)
    if kernel.asked_shapes:
        outputs = kernel.op.outputs
        shapes = node.at("asked_shapes").items(len(outputs), len(outputs))
        for shape, operand in zip(shapes, outputs, strict=True):
            rank = len(operand.tensor_type.shape)
            shape.items(rank, rank)


CPU_KERNEL = record(
    CpuKernel,
    op=CPU_OP,
    implementation=integer(0, MOST_DIM),
    config=CPU_CONFIG,
    asked_shapes=frozen_array(frozen_array(integer(-1, MOST_DIM))),
    check=_check,
)
