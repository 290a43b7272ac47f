"""Kernels that write a tensor as it is read: in another order, as other elements, or to another place.

One is made for tensors of known shapes; the other is one text for all shapes, which a run tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.element_type import ElementType
from vendor_reference.compiler.ir.types import IrType, element_type_of, order_of, view_of
from vendor_reference.compiler.library.elementwise import cast
from vendor_reference.compiler.library.kernel_text import UNSIGNED, name_kernel
from vendor_reference.compiler.library.moves import MovedPart, move_kernel
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.kernel_spec import KernelSpec, ShapeArgument, TensorArgument


def transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """The kernel for two tensors or buffers of one shape."""
    read, written = view_of(source), view_of(target)
    if read.element_type is written.element_type:
        return move_kernel(title, 1, [MovedPart(written, read)])
    return cast(read, written).kernel(title)


def dynamic_transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """The kernel for two tensors or buffers of one shape: in another order, or as other elements.

    There is a work item for each element. Numbers become what C makes of them; a half is handled by its bits.
    """
    from_type, to_type = element_type_of(source), element_type_of(target)
    same = from_type is to_type
    read_type = UNSIGNED[from_type.bits] if same else CL_TYPES[from_type]
    write_type = UNSIGNED[to_type.bits] if same else CL_TYPES[to_type]
    lines = [
        f"__kernel void KERNEL(__global const {read_type}* from, __global const uint* dims,",
        f"                     __global {write_type}* to)",
        "{",
        "    const size_t i = get_global_id(0);",
        *_place(order_of(source), order_of(target)),
    ]
    value = "from[at]" if same else _load(from_type)
    lines += [f"    {f'to[i] = {value};' if same else _store(to_type, value)}", "}", ""]
    arguments = (
        TensorArgument(is_output=False, index=0),
        ShapeArgument(is_output=False, index=0),
        TensorArgument(is_output=True, index=0),
    )
    entry, text = name_kernel(title, "\n".join(lines))
    return KernelSpec(title, arguments, text=text, entry=entry)


def _place(source: Sequence[int], target: Sequence[int]) -> list[str]:
    """Lines that find `at`, where the element is read that is written at `i`.

    In one order these are the same; divisions would take a hundred times as long as the rest.
    """
    if source == target:
        return ["    const size_t at = i;"]
    lines = ["    size_t rest = i;"]
    for dim in reversed(target):
        lines += [f"    const size_t i{dim} = rest % dims[{dim}];", f"    rest /= dims[{dim}];"]
    at = ""
    for dim in source:
        at = f"({at} * dims[{dim}] + i{dim})" if at else f"i{dim}"
    return [*lines, f"    const size_t at = {at};"]


def _load(element_type: ElementType) -> str:
    return "vload_half(at, from)" if element_type is ElementType.FLOAT16 else "from[at]"


def _store(element_type: ElementType, value: str) -> str:
    if element_type is ElementType.FLOAT16:
        return f"vstore_half((float){value}, i, to);"
    if element_type is ElementType.BOOL:
        return f"to[i] = {value} != 0;"
    return f"to[i] = ({CL_TYPES[element_type]}){value};"
