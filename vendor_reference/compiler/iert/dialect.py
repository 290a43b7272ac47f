"""The IERT dialect: ops on buffers, which are allocated outside of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    MemRefType,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from vendor_reference.compiler.ie.layer_op import LayerOp
from vendor_reference.compiler.iert.custom_binary_layer import BufferCustomBinaryLayerOp
from vendor_reference.compiler.iert.layer_op import counterpart
from vendor_reference.compiler.ir.checks import check_memrefs, check_view
from vendor_reference.compiler.ir.constant import AnyConstantOp


@irdl_op_definition
class BufferConstantOp(AnyConstantOp):
    """A constant buffer."""

    name = "IERT.Constant"

    def verify_(self) -> None:
        check_memrefs("output", [self.output.type])
        super().verify_()


@irdl_op_definition
class BufferActualShapeOfOp(IRDLOperation):
    """`%s = IERT.ActualShapeOf %t : memref<100x3xf16> -> memref<2xui32>`; the caller has put it there."""

    name = "IERT.ActualShapeOf"
    source = operand_def(base(MemRefType))
    shape = result_def(base(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($shape)"

    def __init__(self, source: SSAValue, shape: Attribute) -> None:
        super().__init__(operands=[source], result_types=[shape])


@irdl_op_definition
class ViewOp(IRDLOperation):
    """`%v = IERT.View %b : memref<2x3xf32> -> memref<6xf32>`: the same memory in another shape, or a part."""

    name = "IERT.View"
    source = operand_def(base(MemRefType))
    result = result_def(base(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        check_view(self.source.type, self.result.type)


def iert_dialect(layers: Sequence[type[LayerOp]]) -> Dialect:
    """The dialect with the counterparts of these layers."""
    ops = [counterpart(layer) for layer in layers]
    return Dialect(
        "IERT", [BufferConstantOp, BufferActualShapeOfOp, BufferCustomBinaryLayerOp, ViewOp, *ops]
    )
