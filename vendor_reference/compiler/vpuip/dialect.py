"""The VPUIP dialect: buffers at static offsets, and the NPU's tasks, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ir.assembly import number, print_attributes
from vendor_reference.compiler.ir.buffer_ops import (
    AnyActualShapeOfOp,
    AnyBufferConstantOp,
    AnyViewOp,
)
from vendor_reference.compiler.ir.types import space_of
from vendor_reference.compiler.ir.verification import check_memrefs
from vendor_reference.compiler.memory_spaces import MemorySpace
from vendor_reference.compiler.vpuip.task_op import CppOp, OclOp

_SPACES = tuple(space.value for space in MemorySpace)


@irdl_op_definition
class DeclareBufferOp(IRDLOperation):
    """`%b = VPUIP.DeclareBuffer @DDR[4096] : memref<4xf32, @DDR>`: memory from that byte of the arena on."""

    name = "VPUIP.DeclareBuffer"
    space = prop_def(StringAttr)
    offset = prop_def(IntegerAttr)
    buffer = result_def(base(MemRefType))
    traits = traits_def(Pure())

    def __init__(self, space: MemorySpace | str, offset: int, buffer: Attribute) -> None:
        name = space.value if isinstance(space, MemorySpace) else space
        properties = {"space": StringAttr(name), "offset": number(offset)}
        super().__init__(properties=properties, result_types=[buffer])

    def verify_(self) -> None:
        check_memrefs("buffer", [self.buffer.type])
        if self.space.data not in _SPACES:
            raise VerifyException(f"no memory space @{self.space.data}: @{', @'.join(_SPACES)}")
        if self.offset.value.data < 0:
            raise VerifyException(f"offset {self.offset.value.data}, expected one from 0 on")
        named = space_of(self.buffer.type)
        if named is not None and named.value != self.space.data:
            raise VerifyException(f"a buffer in @{self.space.data} of type {self.buffer.type}")

    @classmethod
    def parse(cls, parser: Parser) -> DeclareBufferOp:
        space = parser.parse_symbol_name().data
        parser.parse_punctuation("[")
        offset = parser.parse_integer(allow_boolean=False)
        parser.parse_punctuation("]")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(space, offset, parser.parse_type())
        op.attributes = attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.space.data)
        printer.print_string(f"[{self.offset.value.data}]")
        print_attributes(printer, self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.buffer.type)


@irdl_op_definition
class TaskConstantOp(AnyBufferConstantOp):
    """A constant buffer."""

    name = "VPUIP.Constant"


@irdl_op_definition
class TaskViewOp(AnyViewOp):
    """Another view of a buffer's memory."""

    name = "VPUIP.View"


@irdl_op_definition
class TaskActualShapeOfOp(AnyActualShapeOfOp):
    """The actual shape of a function's input."""

    name = "VPUIP.ActualShapeOf"


@irdl_op_definition
class EvaluateShapeOp(IRDLOperation):
    """`VPUIP.EvaluateShape @shape_of_Up(%s, %t) : memref<2xui32>, memref<2xui32>`: by a function's formulas.

    The last operand is the result. No task: the device does it before the first task that needs it.
    """

    name = "VPUIP.EvaluateShape"
    callee = prop_def(SymbolRefAttr)
    shapes = var_operand_def(base(MemRefType))
    assembly_format = "$callee `(` $shapes `)` attr-dict `:` type($shapes)"

    def __init__(self, callee: SymbolRefAttr, shapes: Sequence[SSAValue]) -> None:
        super().__init__(operands=[shapes], properties={"callee": callee})

    def verify_(self) -> None:
        check_memrefs("shape", self.shapes.types)
        if not self.shapes:
            raise VerifyException("no result")


VPUIP = Dialect(
    "VPUIP",
    [
        DeclareBufferOp,
        TaskConstantOp,
        TaskViewOp,
        TaskActualShapeOfOp,
        EvaluateShapeOp,
        OclOp,
        CppOp,
    ],
)
