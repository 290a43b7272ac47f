"""A buffer of the IR as a kernel sees it: B, F, Y, X, and where their elements lie."""

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
    """The tensor that a kernel gets, in the format that it asked for.

    `told` is its shape, where that is not the type's: what a run tells is within that.

    Raises:
      LiteRtError: UNSUPPORTED, for a buffer that has no B, F, Y and X as it lies.
    """
    shape, layout = shape_of(ir_type), layout_of(ir_type)
    if isinstance(layout, StridedLayoutAttr):
        strides, offset = strides_of(layout)
        view = strided_bfyx(shape, strides, offset, wanted)
    else:
        view = bfyx(shape if told is None else told, order_of(ir_type), wanted)
    return KernelTensor(element_type_of(ir_type), view)


def asked_format(spec: KernelSpec, is_output: bool, index: int) -> Format:
    """The format that a kernel asks for a tensor of its op; the first of its arguments counts."""
    tensors = [a for a in spec.arguments if isinstance(a, TensorArgument)]
    asked = (a.format for a in tensors if (a.is_output, a.index) == (is_output, index))
    return next(asked, Format.ANY)


def flat_tensor(ir_type: Attribute) -> KernelTensor:
    """A tensor whose elements all lie along X, whatever its shape is."""
    dims = (1, 1, 1, multiply(shape_of(ir_type)))
    return KernelTensor(element_type_of(ir_type), Bfyx(dims, Format.BFYX.value))
