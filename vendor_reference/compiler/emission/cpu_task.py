"""Converts a VPUIP task of a CPU layer to a task of an executable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, SSAValue

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.names import read_op_name
from vendor_reference.compiler.ir.types import (
    element_strides,
    element_type_of,
    shape_of,
)
from vendor_reference.compiler.layer_kernels import all_inputs
from vendor_reference.compiler.levels.vpuip import TaskOp
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.executable.cpu_op import CpuOperand, TensorConfig
from vendor_reference.executable.executable import Argument, CpuPlace, CpuTask


def emit_cpu_task(
    spec: KernelSpec,
    op: TaskOp,
    place: Callable[[SSAValue], Argument],
    shapes: tuple[Sequence[int | None], Sequence[int | None]],
) -> CpuTask:
    """Converts a VPUIP task of a CPU layer to a task of an executable, after memory planning.

    `place` returns the memory location of a buffer. `shapes` holds an index into the function's shape values for
    each passed input, and for each output; the entry is None for a fixed shape.
    """
    kernel = spec.cpu_layer
    assert kernel is not None
    values = iter(zip(op.inputs, shapes[0], strict=True))
    types = all_inputs(spec, op.inputs.types)
    if (len(types), len(op.outputs)) != (len(kernel.op.inputs), len(kernel.op.outputs)):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the task has {count_text(len(types), 'input')} and {count_text(len(op.outputs), 'output')}, "
            f"but the layer has {count_text(len(kernel.op.inputs), 'input')} and "
            f"{count_text(len(kernel.op.outputs), 'output')}",
            spec.location,
        )
    inputs: list[CpuPlace | None] = []
    for ir_type, operand, config in zip(types, kernel.op.inputs, kernel.config.inputs, strict=True):
        if ir_type is None or operand is None or config is None:
            inputs.append(None)
        else:
            value, shape = next(values)
            inputs.append(_place(spec, place(value), ir_type, operand, config, shape))
    outputs = [
        _place(spec, place(value), value.type, operand, config, shape)
        for value, operand, config, shape in zip(
            op.outputs, kernel.op.outputs, kernel.config.outputs, shapes[1], strict=True
        )
    ]
    return CpuTask(
        spec.op_name or spec.title,
        spec.sources[0],
        kernel.op,
        kernel.implementation,
        kernel.config,
        tuple(inputs),
        tuple(outputs),
        read_op_name(op.attributes),
    )


def _place(
    spec: KernelSpec,
    argument: Argument,
    ir_type: Attribute,
    operand: CpuOperand,
    config: TensorConfig,
    told: int | None,
) -> CpuPlace:
    layout = config.layout
    assert layout is not None
    shape = operand.tensor_type.shape
    expected = layout.dims(shape) if layout.is_blocked else shape
    if shape_of(ir_type) != expected or element_type_of(ir_type) is not config.element_type:
        what = (
            f"the buffer of a tensor of type {operand.tensor_type} has type {ir_type}, but the layer needs "
            f"elements of type {config.element_type.name} in layout {layout}"
        )
        raise LiteRtError(Status.INVALID_ARGUMENT, what, spec.location)
    by_dim, offset = element_strides(ir_type)
    strides = by_dim if layout.is_blocked else tuple(by_dim[d] for d in layout.order)
    if (strides, offset) == (layout.strides(shape), 0):
        return CpuPlace(argument, shape=told)
    if not config.takes_view or layout.is_blocked or told is not None:
        what = f"the buffer has type {ir_type}, but the layer needs layout {layout} without gaps"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, spec.location)
    return CpuPlace(argument, strides, offset)
