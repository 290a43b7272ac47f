"""A CPU layer and its op become a kernel with requirements, as those of OpenCL have them."""

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
    """The kernel of an op whose layer is a function in a shared object, which is the one source."""
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
    """What a CPU layer asks of the op's inputs that are there, and of its outputs."""
    return Requirements(
        tuple(_requirement(tensor) for tensor in kernel.config.inputs if tensor is not None),
        tuple(_requirement(tensor) for tensor in kernel.config.outputs),
    )


def tensor_configs(
    op: Op, kernel: CpuKernel | None
) -> tuple[Sequence[TensorConfig | None], Sequence[TensorConfig | None]]:
    """How an op's kernel takes its inputs and outputs, where that is a CPU layer's; else None for each."""
    if kernel is None:
        return [None] * len(op.inputs), [None] * len(op.outputs)
    return kernel.config.inputs, kernel.config.outputs


def find_blocks(config: TensorConfig | None) -> MemoryLayout | None:
    """The layout of a tensor that a CPU layer takes in blocks; None for any other."""
    layout = config.layout if config is not None else None
    return layout if layout is not None and layout.is_blocked else None


def memory_type(tensor: Tensor, config: TensorConfig | None) -> Attribute:
    """The type of a tensor on IE as a layer takes it: in blocks it is one of another shape."""
    layout = find_blocks(config)
    shape = tensor.type.shape if layout is None else layout.dims(tensor.shape)
    return tensor_type(tensor.element_type, shape)


def _requirement(config: TensorConfig) -> TensorRequirement:
    layout = config.layout
    assert layout is not None
    if layout.is_blocked:  # its type has a dimension for each of memory
        return TensorRequirement(tuple(range(len(layout.order))), config.element_type)
    return TensorRequirement(layout.order, config.element_type, config.takes_view)
