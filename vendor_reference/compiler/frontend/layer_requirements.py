"""What a custom layer asks of its op's tensors: formats, precisions, and whether it takes views."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.half_tensors import kernel_type
from vendor_reference.compiler.tensor_requirements import Requirements
from vendor_reference.custom_layers.kernel_spec import KernelArgument, TensorArgument
from vendor_reference.custom_layers.layout import Format, Order, format_order


def layer_requirements(bindings: Sequence[KernelArgument], op: Op, is_half: bool) -> Requirements:
    """The requirements of a layer, for the op's inputs that are there, and its outputs.

    Elements are to be as the model has them where the layer names no others, since the kernel was written for
    that. A kernel that asks for no format gets row order, unless it goes by pitches: then it takes what comes.

    Args:
      bindings: see `tensor_bindings`; the first of a tensor counts.
      op: that the layer is for.
      is_half: whether half tensors are half where the layer leaves it to the model, and not float.
    """
    first: dict[tuple[bool, int], TensorArgument] = {}
    for binding in bindings:
        if isinstance(binding, TensorArgument):
            first.setdefault((binding.is_output, binding.index), binding)
    inputs = [(first.get((False, i)), t) for i, t in enumerate(op.inputs) if t is not None]
    outputs = [(first.get((True, i)), t) for i, t in enumerate(op.outputs)]
    return Requirements(
        tuple(_order(binding, tensor) for binding, tensor in inputs),
        tuple(_order(binding, tensor) for binding, tensor in outputs),
        tuple(_precision(binding, tensor, is_half) for binding, tensor in inputs),
        tuple(_precision(binding, tensor, is_half) for binding, tensor in outputs),
        tuple(binding is None or binding.is_strided for binding, _ in inputs),
        tuple(binding is None or binding.is_strided for binding, _ in outputs),
        (None,) * (len(inputs) + len(outputs)),
    )


def _order(binding: TensorArgument | None, tensor: Tensor) -> Order | None:
    if binding is None:
        return None  # the kernel does not read it
    if binding.format is Format.ANY and binding.is_strided:
        return None
    return format_order(binding.format, len(tensor.shape))


def _precision(binding: TensorArgument | None, tensor: Tensor, is_half: bool) -> ElementType | None:
    if binding is None:
        return None
    return kernel_type(tensor.element_type, binding.element_type, is_half)
