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
from vendor_reference.compiler.library.elementwise import Operand, elementwise_kernel
from vendor_reference.compiler.library.kernel_text import CHUNK, name_kernel
from vendor_reference.compiler.library.loops import plan_loops
from vendor_reference.compiler.library.moves import Part, move_kernel
from vendor_reference.compiler.library.view import View
from vendor_reference.custom_layers.cl_types import CL_TYPES

_ARGUMENTS = (TensorArgument(is_output=False, index=0), TensorArgument(is_output=True, index=0))


def transfer_kernel(title: str, source: IrType, target: IrType) -> KernelSpec:
    """The kernel for two tensors or buffers of one shape.

    Numbers become what C makes of them, as TFLite's CAST has it.
    """
    read, written = _view(source), _view(target)
    if read.element_type is written.element_type:
        return move_kernel(title, 1, [Part(written, read)])
    if {read.element_type, written.element_type} == {ElementType.FLOAT16, ElementType.FLOAT32}:
        return elementwise_kernel(title, "a", "float", [Operand(read)], Operand(written))
    return _conversion_kernel(title, read, written)


def _view(ir_type: IrType) -> View:
    strides, offset = element_strides(ir_type)
    return View(element_type_of(ir_type), shape_of(ir_type), strides, offset)


def _conversion_kernel(title: str, read: View, written: View) -> KernelSpec:
    """Element by element; rows, and chunks of them, run alone."""
    loops = plan_loops([read, written])
    (read_offset, written_offset), (reads, writes) = loops.offsets, loops.strides
    lines = [
        f"__kernel void KERNEL(__global const {_pointer(read.element_type)}* from, "
        f"__global {_pointer(written.element_type)}* to) {{",
        f"  const size_t first = get_global_id(0) * {CHUNK};",
        f"  const size_t last = min(first + {CHUNK}, (size_t){loops.sizes[-1]});",
        "  size_t row = get_global_id(1);",
        f"  from += {read_offset};",
        f"  to += {written_offset};",
    ]
    for loop in reversed(range(len(loops.sizes) - 1)):
        lines += [
            f"  from += row % {loops.sizes[loop]} * {reads[loop]};",
            f"  to += row % {loops.sizes[loop]} * {writes[loop]};",
            f"  row /= {loops.sizes[loop]};",
        ]
    value = _load(read.element_type, f"i * {reads[-1]}")
    store = _store(written.element_type, f"i * {writes[-1]}", value)
    lines += [f"  for (size_t i = first; i < last; ++i) {store}", "}", ""]
    entry, text = name_kernel(title, "\n".join(lines))
    global_size = (str(-(-loops.sizes[-1] // CHUNK)), str(loops.num_rows))
    return KernelSpec(title, _ARGUMENTS, text=text, entry=entry, global_size=global_size)


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
