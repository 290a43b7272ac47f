"""Converts a buffer of the IR to a kernel's view of the buffer: the sizes B, F, Y, X, and the memory layout."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StridedLayoutAttr
from xdsl.ir import Attribute

from litert.core.sizes import Size, multiply
from vendor_reference.compiler.ir.types import (
    element_type_of,
    layout_of,
    order_of,
    shape_of,
    strides_of,
)
from vendor_reference.compiler.simplegpu_defines import KernelTensor
from vendor_reference.custom_layers.kernel_spec import KernelSpec, TensorArgument
from vendor_reference.custom_layers.layout import Bfyx, Format, bfyx, strided_bfyx


def kernel_tensor(
    ir_type: Attribute, wanted: Format, told: Sequence[Size] | None = None
) -> KernelTensor:
    """Returns a buffer as a kernel sees it, in the format that the kernel requires.

    `told` is the actual shape in a run, if the type holds only the largest shape.

    Raises:
      LiteRtError: UNSUPPORTED, if the buffer's layout does not map to B, F, Y and X.
    """
    shape, layout = shape_of(ir_type), layout_of(ir_type)
    if isinstance(layout, StridedLayoutAttr):
        strides, offset = strides_of(layout)
        view = strided_bfyx(shape, strides, offset, wanted)
    else:
        view = bfyx(shape if told is None else told, order_of(ir_type), wanted)
    return KernelTensor(element_type_of(ir_type), view)


def asked_format(spec: KernelSpec, is_output: bool, index: int) -> Format:
    """Returns the format that a kernel requires for a tensor of its op.

    If several arguments are bound to the tensor, the first argument determines the format.
    """
    tensors = [a for a in spec.arguments if isinstance(a, TensorArgument)]
    asked = (a.format for a in tensors if (a.is_output, a.index) == (is_output, index))
    return next(asked, Format.ANY)


def flat_tensor(ir_type: Attribute) -> KernelTensor:
    """Returns a kernel's view of a tensor as one row: all elements lie along X, for any shape of the tensor."""
    dims = (1, 1, 1, multiply(shape_of(ir_type)))
    return KernelTensor(element_type_of(ir_type), Bfyx(dims, Format.BFYX.value))
