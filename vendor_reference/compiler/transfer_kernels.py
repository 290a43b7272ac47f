"""Kernels that copy a tensor to another order, to another element type, or to another buffer."""

from __future__ import annotations

from vendor_reference.compiler.ir.types import IrType, placement_of, shape_of, view_of
from vendor_reference.compiler.library.dynamic_kernel import (
    Choice,
    DynamicTensor,
    input_sizes,
    traced_kernel,
)
from vendor_reference.compiler.library.elementwise import cast
from vendor_reference.compiler.library.moves import MovedPart, move_kernel
from vendor_reference.compiler.library.views import View
from vendor_reference.custom_layers.kernel_spec import KernelSpec


def transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """Returns the kernel that copies a tensor or buffer to another tensor or buffer of the same shape."""
    return _kernel(title, view_of(source), view_of(target))


def dynamic_transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """Returns the kernel that copies a tensor whose shape is known only at run time.

    The types of source and target have the largest possible shape.
    """
    bound = shape_of(source)
    sizes = input_sizes(0, [-1] * len(bound))
    source_tensor, target_tensor = (
        DynamicTensor(placement_of(t), sizes, bound) for t in (source, target)
    )

    def ask(choose: Choice) -> KernelSpec:
        return _kernel(title, source_tensor.view(choose), target_tensor.view(choose))

    return traced_kernel(title, ask)


def _kernel(title: str, read: View, written: View) -> KernelSpec:
    if read.element_type is written.element_type:
        return move_kernel(title, 1, [MovedPart(written, read)])
    return cast(read, written).kernel(title)
