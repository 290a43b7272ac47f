"""The kernel that writes a tensor as it is read: in another order, as other elements, or to another place."""

from __future__ import annotations

from vendor_reference.compiler.ir.types import (
    IrType,
    element_strides,
    element_type_of,
    shape_of,
)
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.casts import cast_kernel
from vendor_reference.compiler.library.moves import Part, move_kernel
from vendor_reference.compiler.library.view import View


def transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """The kernel for two tensors or buffers of one shape."""
    read, written = _view(source), _view(target)
    if read.element_type is written.element_type:
        return move_kernel(title, 1, [Part(written, read)])
    return cast_kernel(title, read, written)


def _view(ir_type: IrType) -> View:
    strides, offset = element_strides(ir_type)
    return View(element_type_of(ir_type), shape_of(ir_type), strides, offset)
