"""The kernel that writes a tensor as it is read: in another order, as other elements, or to another place."""

from __future__ import annotations

from litert.core.element_type import ElementType
from vendor_reference.compiler.ir.types import (
    IrType,
    element_strides,
    element_type_of,
    shape_of,
)
from vendor_reference.compiler.kernel_spec import KernelSpec, TensorArgument
from vendor_reference.custom_layers.cl_types import CL_TYPES

_CHUNK = 4096
"""Elements of a row for a work item."""

_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
_ARGUMENTS = (TensorArgument(is_output=False, index=0), TensorArgument(is_output=True, index=0))


def transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """The kernel for two tensors or buffers of one shape.

    Numbers become what C makes of them, as TFLite's CAST has it; a half is handled by its bits, so that no device
    needs fp16.
    """
    sizes, reads, writes, offsets = _loops(source, target)
    from_type, to_type = element_type_of(source), element_type_of(target)
    same = from_type is to_type
    read_type = _UNSIGNED[from_type.bits] if same else _pointer(from_type)
    write_type = _UNSIGNED[to_type.bits] if same else _pointer(to_type)
    outer = len(sizes) - 1
    lines = [
        f"__kernel void transfer(__global const {read_type}* from, __global {write_type}* to)",
        "{",
        f"    const size_t first = get_global_id(0) * {_CHUNK};",
        f"    const size_t last = min(first + {_CHUNK}, (size_t){sizes[-1]});",
        "    size_t row = get_global_id(1);",
        f"    from += {offsets[0]};",
        f"    to += {offsets[1]};",
    ]
    for loop in reversed(range(outer)):
        lines += [
            f"    from += row % {sizes[loop]} * {reads[loop]};",
            f"    to += row % {sizes[loop]} * {writes[loop]};",
            f"    row /= {sizes[loop]};",
        ]
    read, write = f"i * {reads[-1]}", f"i * {writes[-1]}"
    value = f"from[{read}]" if same else _load(from_type, read)
    store = f"to[{write}] = {value};" if same else _store(to_type, write, value)
    lines += ["    for (size_t i = first; i < last; ++i)", f"        {store}", "}", ""]
    num_rows = 1
    for size in sizes[:-1]:
        num_rows *= size
    global_size = (str(-(-sizes[-1] // _CHUNK)), str(num_rows))
    return KernelSpec(
        title, _ARGUMENTS, text="\n".join(lines), entry="transfer", global_size=global_size
    )


def _loops(
    source: IrType, target: IrType
) -> tuple[list[int], list[int], list[int], tuple[int, int]]:
    """Sizes, and strides of both, of the fewest loops that write the target in its memory order."""
    shape = shape_of(target)
    (read, read_offset), (written, written_offset) = (
        element_strides(source),
        element_strides(target),
    )
    sizes: list[int] = []
    reads: list[int] = []
    writes: list[int] = []
    for dim in sorted(range(len(shape)), key=lambda d: (-written[d], d)):
        size = shape[dim]
        if size == 1:
            continue
        if sizes and reads[-1] == read[dim] * size and writes[-1] == written[dim] * size:
            sizes[-1] *= size
            reads[-1], writes[-1] = read[dim], written[dim]
        else:
            sizes.append(size)
            reads.append(read[dim])
            writes.append(written[dim])
    if not sizes:
        return [1], [1], [1], (read_offset, written_offset)
    return sizes, reads, writes, (read_offset, written_offset)


def _pointer(element_type: ElementType) -> str:
    return CL_TYPES[element_type]


def _load(element_type: ElementType, index: str) -> str:
    if element_type is ElementType.FLOAT16:
        return f"vload_half({index}, from)"
    return f"from[{index}]"


def _store(element_type: ElementType, index: str, value: str) -> str:
    if element_type is ElementType.FLOAT16:
        return f"vstore_half((float){value}, {index}, to);"
    if element_type is ElementType.BOOL:
        return f"to[{index}] = {value} != 0;"
    return f"to[{index}] = ({CL_TYPES[element_type]}){value};"
