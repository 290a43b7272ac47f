"""What a constant, a view and the actual shape of a buffer are on both levels of buffers, IERT and VPUIP."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, base, operand_def, result_def, traits_def
from xdsl.traits import Pure

from vendor_reference.compiler.ir.constant import AnyConstantOp
from vendor_reference.compiler.ir.verification import check_memrefs, check_view


class AnyBufferConstantOp(AnyConstantOp):
    """A constant buffer."""

    def verify_(self) -> None:
        check_memrefs("output", [self.output.type])
        super().verify_()


class AnyViewOp(IRDLOperation):
    """`%v = IERT.View %b : memref<2x3xf32> -> memref<6xf32>`: the same memory in another shape, or a part."""

    source = operand_def(base(MemRefType))
    result = result_def(base(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        check_view(self.source.type, self.result.type)


class AnyActualShapeOfOp(IRDLOperation):
    """`%s = IERT.ActualShapeOf %t : memref<100x3xf16> -> memref<2xui32>`; the caller has put it there."""

    source = operand_def(base(MemRefType))
    shape = result_def(base(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($shape)"

    def __init__(self, source: SSAValue, shape: Attribute) -> None:
        super().__init__(operands=[source], result_types=[shape])
