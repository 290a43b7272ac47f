"""The IR level VPUIP: buffers at static offsets, and the NPU's tasks in execution order.

    VPUIP.OCL @Softsign (%in)[%shape_of_in] -> (%out)[%shape_of_out] scratch (%s)
        {global_size = array<i64: 4>, num_shaves = 4 : i64}
    VPUIP.OCL from %code (%in) -> (%out) {num_shaves = 8 : i64}
    VPUIP.Command @Add (%in, %in2) -> (%out)

The symbol is the name of the external function that holds the kernel. If a task runs precompiled code, the code is
an operand, and takes the place of the symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ir.assembly import (
    find_value,
    number,
    parse_operands,
    parse_shapes,
    print_attributes,
    print_shapes,
    print_values,
)
from vendor_reference.compiler.ir.buffer_groups import BufferGroups
from vendor_reference.compiler.ir.types import space_of
from vendor_reference.compiler.ir.verification import check_memrefs
from vendor_reference.compiler.levels.layer import AnyBufferLayerOp
from vendor_reference.compiler.levels.values import (
    AnyActualShapeOfOp,
    AnyBufferConstantOp,
    AnyViewOp,
)
from vendor_reference.compiler.memory_spaces import MemorySpace

GLOBAL_SIZE = "global_size"
LOCAL_SIZE = "local_size"
NUM_SHAVES = "num_shaves"


class TaskOp(AnyBufferLayerOp):
    """A task.

    The attributes are the work sizes, the number of shaves, and the other attributes of the task's layer.
    """

    callee = opt_prop_def(SymbolRefAttr)

    NEEDS_OUTPUTS: ClassVar[bool] = False  # a kernel that writes only shapes has no output buffers

    def __init__(
        self,
        layer: str | SymbolRefAttr | SSAValue,
        groups: BufferGroups,
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Makes a task; `layer` is the name of a function, or precompiled code."""
        if isinstance(layer, SSAValue):
            super().__init__(groups, attributes, code=layer)
        else:
            callee = SymbolRefAttr(layer) if isinstance(layer, str) else layer
            super().__init__(groups, attributes, properties={"callee": callee})

    def numbers(self, name: str) -> tuple[int, ...]:
        """Returns the numbers of an attribute that contains a work size; empty if the attribute is missing."""
        attribute = self.attributes.get(name)
        if not isinstance(attribute, DenseArrayBase):
            return ()
        return tuple(int(value) for value in attribute.get_values())

    def num_shaves(self) -> int:
        """Returns the number of vector processors that run the task."""
        attribute = self.attributes.get(NUM_SHAVES)
        return int(attribute.value.data) if isinstance(attribute, IntegerAttr) else 1

    def verify_(self) -> None:
        if (self.code is None) == (self.callee is None):
            raise VerifyException("a task must either call a function or run code")
        super().verify_()
        for name in (GLOBAL_SIZE, LOCAL_SIZE):
            size = self.numbers(name)
            if name in self.attributes and (not 1 <= len(size) <= 3 or min(size) < 0):
                found = self.attributes[name]
                raise VerifyException(
                    f"attribute {name} is {found}, but must have 1 to 3 numbers of at least 0"
                )
        sizes, groups = len(self.numbers(GLOBAL_SIZE)), len(self.numbers(LOCAL_SIZE))
        if groups and groups != sizes:
            raise VerifyException(f"the task has {groups} local sizes, but {sizes} global sizes")
        shaves = self.attributes.get(NUM_SHAVES)
        if shaves is not None and (not isinstance(shaves, IntegerAttr) or shaves.value.data < 1):
            raise VerifyException(
                f"attribute {NUM_SHAVES} is {shaves}, but must be a number of at least 1"
            )

    @classmethod
    def parse(cls, parser: Parser) -> TaskOp:
        layer: str | SSAValue
        if parser.parse_optional_keyword("from") is not None:
            layer = find_value(parser, parser.parse_unresolved_operand())
        else:
            layer = parser.parse_symbol_name().data
        inputs, input_shapes = parse_operands(parser), parse_shapes(parser)
        parser.parse_punctuation("->")
        outputs, output_shapes = parse_operands(parser), parse_shapes(parser)
        has_scratch = parser.parse_optional_keyword("scratch") is not None
        scratch = parse_operands(parser) if has_scratch else []
        groups = BufferGroups(inputs, outputs, scratch, input_shapes, output_shapes)
        return cls(layer, groups, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        if self.code is not None:
            printer.print_string(" from ")
            printer.print_ssa_value(self.code)
        elif self.callee is not None:
            printer.print_string(" ")
            printer.print_symbol_name(self.callee.root_reference.data)
        printer.print_string(" ")
        print_values(printer, self.inputs)
        print_shapes(printer, self.input_shapes)
        printer.print_string(" -> ")
        print_values(printer, self.outputs)
        print_shapes(printer, self.output_shapes)
        if self.scratch:
            printer.print_string(" scratch ")
            print_values(printer, self.scratch)
        print_attributes(printer, self.attributes)


@irdl_op_definition
class OclOp(TaskOp):
    """A task that runs an OpenCL kernel (`VPUIP.OCL`)."""

    name = "VPUIP.OCL"


@irdl_op_definition
class CppOp(TaskOp):
    """A task that runs a function of a shared object on the host (`VPUIP.CPP`)."""

    name = "VPUIP.CPP"


@irdl_op_definition
class CommandOp(TaskOp):
    """A task that runs firmware commands (`VPUIP.Command`)."""

    name = "VPUIP.Command"


_SPACES = tuple(space.value for space in MemorySpace)


@irdl_op_definition
class DeclareBufferOp(IRDLOperation):
    """Declares a buffer at an offset, in bytes, in the arena of a memory space.

    `%b = VPUIP.DeclareBuffer @DDR[4096] : memref<4xf32, @DDR>`
    """

    name = "VPUIP.DeclareBuffer"
    space = prop_def(StringAttr)
    offset = prop_def(IntegerAttr)
    buffer = result_def(base(MemRefType))
    traits = traits_def(Pure())

    def __init__(self, space: str, offset: int, buffer: Attribute) -> None:
        properties = {"space": StringAttr(space), "offset": number(offset)}
        super().__init__(properties=properties, result_types=[buffer])

    def verify_(self) -> None:
        check_memrefs("buffer", [self.buffer.type])
        if self.space.data not in _SPACES:
            raise VerifyException(
                f"there is no memory space @{self.space.data}: the spaces are @{', @'.join(_SPACES)}"
            )
        if self.offset.value.data < 0:
            raise VerifyException(f"the offset is {self.offset.value.data}, but must be at least 0")
        named = space_of(self.buffer.type)
        if named is not None and named.value != self.space.data:
            raise VerifyException(
                f"the buffer is declared in @{self.space.data}, but has type {self.buffer.type}"
            )

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
    """A constant buffer (`VPUIP.Constant`)."""

    name = "VPUIP.Constant"


@irdl_op_definition
class TaskViewOp(AnyViewOp):
    """A view of a buffer with another shape, or of a part of the buffer (`VPUIP.View`)."""

    name = "VPUIP.View"


@irdl_op_definition
class TaskActualShapeOfOp(AnyActualShapeOfOp):
    """The actual shape of a function input in a run (`VPUIP.ActualShapeOf`)."""

    name = "VPUIP.ActualShapeOf"


@irdl_op_definition
class EvaluateShapeOp(IRDLOperation):
    """Computes a shape with the formulas of a shape function.

    `VPUIP.EvaluateShape @shape_of_Up(%s, %t) : memref<2xui32>, ...`

    The last operand is the buffer for the result. `VPUIP.EvaluateShape` is not a task: the device computes the
    shape before the first task that needs the shape.
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
            raise VerifyException("the op needs at least one result")


OPS = (
    DeclareBufferOp, TaskConstantOp, TaskViewOp, TaskActualShapeOfOp, EvaluateShapeOp, OclOp, CppOp,
    CommandOp,
)  # fmt: skip
