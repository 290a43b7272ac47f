"""The kernel that writes a tensor as it is read: in another order, as other elements, or to another place."""

from __future__ import annotations

from vendor_reference.compiler.ir.types import IrType
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.casts import cast_kernel
from vendor_reference.compiler.library.moves import Part, move_kernel
from vendor_reference.compiler.type_view import view_of


def transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """The kernel for two tensors or buffers of one shape."""
    read, written = view_of(source), view_of(target)
    if read.element_type is written.element_type:
        return move_kernel(title, 1, [Part(written, read)])
    return cast_kernel(title, read, written)
