"""A tensor or buffer of the IR as the library's kernels see it."""

from __future__ import annotations

from xdsl.ir import Attribute

from vendor_reference.compiler.ir.types import element_strides, element_type_of, shape_of
from vendor_reference.compiler.library.view import View


def view_of(ir_type: Attribute) -> View:
    """Where the elements of a tensor or memref, whose shape is known, lie."""
    strides, offset = element_strides(ir_type)
    return View(element_type_of(ir_type), shape_of(ir_type), strides, offset)
