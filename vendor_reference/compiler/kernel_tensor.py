"""Converts a buffer of the IR to a kernel's view of it: B, F, Y, X, and the place of the elements."""

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
    """Returns the tensor that a kernel gets, in the format that the kernel asks for.

    `told` is the tensor's shape if it differs from the type's: a run tells a shape within the
    type's.

    Raises:
      LiteRtError: UNSUPPORTED, for a buffer whose layout has no B, F, Y and X.
    """
    shape, layout = shape_of(ir_type), layout_of(ir_type)
    if isinstance(layout, StridedLayoutAttr):
        strides, offset = strides_of(layout)
        view = strided_bfyx(shape, strides, offset, wanted)
    else:
        view = bfyx(shape if told is None else told, order_of(ir_type), wanted)
    return KernelTensor(element_type_of(ir_type), view)


def asked_format(spec: KernelSpec, is_output: bool, index: int) -> Format:
    """Returns the format that a kernel asks for a tensor of its op; the first of its arguments counts."""
    tensors = [a for a in spec.arguments if isinstance(a, TensorArgument)]
    asked = (a.format for a in tensors if (a.is_output, a.index) == (is_output, index))
    return next(asked, Format.ANY)


def flat_tensor(ir_type: Attribute) -> KernelTensor:
    """Returns a tensor whose elements all lie along X, whatever its shape is."""
    dims = (1, 1, 1, multiply(shape_of(ir_type)))
    return KernelTensor(element_type_of(ir_type), Bfyx(dims, Format.BFYX.value))
