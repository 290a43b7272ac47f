"""Converts a CPU layer and its op to a kernel with requirements for its tensors, as for OpenCL layers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from litert.model.graph import Op, Tensor
from vendor_reference.compiler.ir.types import tensor_type
from vendor_reference.compiler.tensor_requirements import Requirements, TensorRequirement
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_spec import CpuKernel, KernelSpec, TensorArgument
from vendor_reference.executable.cpu_op import MemoryLayout, TensorConfig
from vendor_reference.executable.executable import Source


def cpu_layer_kernel(
    layer: CustomLayer, op: Op, kernel: CpuKernel, sources: Sequence[Source]
) -> KernelSpec:
    """Returns the kernel of an op with a CPU layer. The only source file of this kernel is the shared object."""
    inputs = [TensorArgument(False, i) for i, tensor in enumerate(op.inputs) if tensor is not None]
    outputs = [TensorArgument(True, i) for i in range(len(op.outputs))]
    return KernelSpec(
        title=kernel.op.layer_type,
        arguments=(*inputs, *outputs),
        where=layer.file_name,
        sources=tuple(sources),
        entry=kernel.op.layer_type,
        op_name=op.name,
        absent_inputs=tuple(i for i, tensor in enumerate(op.inputs) if tensor is None),
        in_place=kernel.config.outputs[0].in_place == 0,
        cpu_layer=kernel,
    )


def cpu_layer_requirements(kernel: CpuKernel) -> Requirements:
    """Returns a CPU layer's requirements for the outputs of its op, and for the inputs that are not omitted."""
    return Requirements(
        tuple(_requirement(tensor) for tensor in kernel.config.inputs if tensor is not None),
        tuple(_requirement(tensor) for tensor in kernel.config.outputs),
    )


def tensor_configs(
    op: Op, kernel: CpuKernel | None
) -> tuple[Sequence[TensorConfig | None], Sequence[TensorConfig | None]]:
    """Returns the configurations of the tensors of an op with a CPU layer.

    For other ops, each configuration is None.
    """
    if kernel is None:
        return [None] * len(op.inputs), [None] * len(op.outputs)
    return kernel.config.inputs, kernel.config.outputs


def find_blocks(config: TensorConfig | None) -> MemoryLayout | None:
    """Returns the blocked layout that a CPU layer requires for a tensor; None for a layout without blocks."""
    layout = config.layout if config is not None else None
    return layout if layout is not None and layout.is_blocked else None


def memory_type(tensor: Tensor, config: TensorConfig | None) -> Attribute:
    """Returns the IE type of a tensor in the layout that a layer requires; a blocked layout changes the shape."""
    layout = find_blocks(config)
    shape = tensor.type.shape if layout is None else layout.dims(tensor.shape)
    return tensor_type(tensor.element_type, shape)


def _requirement(config: TensorConfig) -> TensorRequirement:
    layout = config.layout
    assert layout is not None
    if layout.is_blocked:  # the type has a dimension for each dimension of the memory
        return TensorRequirement(tuple(range(len(layout.order))), config.element_type)
    return TensorRequirement(layout.order, config.element_type, config.takes_view)
