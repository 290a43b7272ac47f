"""Constants, views and shapes at all IR levels, and the parts of the `shape` dialect that these levels use.

The value of a constant is either written in the IR, or stored as an entry (a resource) in a table beside the
module; the IR then contains only the entry's key.

    %w = IE.Constant tensor<2xf32> = dense<[1.0, 2.0]>
    %w = IERT.Constant memref<2xf32> = dense_resource<constant_0>

A model's weights are resources, so the IR never copies them.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from xdsl.dialects.builtin import (
    AnyTensorTypeConstr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    MemRefType,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ir.types import ShapeType, shape_of
from vendor_reference.compiler.ir.verification import check_memrefs, check_view

ConstantValue: TypeAlias = DenseIntOrFPElementsAttr[Any] | DenseResourceAttr


class AnyConstantOp(IRDLOperation):
    """Base class of constants at all IR levels; the values are in row order."""

    value = prop_def()
    output = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: ConstantValue) -> None:
        super().__init__(properties={"value": value}, result_types=[value.get_type()])

    def constant(self) -> ConstantValue:
        """Returns the value of the constant; a verifier has checked this value."""
        assert isinstance(self.value, (DenseIntOrFPElementsAttr, DenseResourceAttr))
        return self.value

    def with_type(self, ir_type: Attribute) -> ConstantValue:
        """Returns the value with another type: a buffer type, or a type with another layout.

        The numbers stay in row order.
        """
        value: Any = self.constant()
        if isinstance(value, DenseResourceAttr):
            return DenseResourceAttr(value.resource_handle, ir_type)  # type: ignore[arg-type]
        return DenseIntOrFPElementsAttr(ir_type, value.data)  # type: ignore[arg-type]

    def key(self) -> str:
        """Returns the key of the constant's resource; "" for a value in the IR."""
        value = self.value
        return value.resource_handle.data if isinstance(value, DenseResourceAttr) else ""

    def verify_(self) -> None:
        value, result_type = self.value, self.output.type
        if not isinstance(value, (DenseIntOrFPElementsAttr, DenseResourceAttr)):
            raise VerifyException(
                f"a constant's value is {value}, but must be dense<...> or dense_resource<...>"
            )
        if value.get_type() != result_type:
            raise VerifyException(
                f"the constant's value has type {value.get_type()}, but its result has type {result_type}"
            )
        shape = shape_of(result_type)
        if any(dim < 0 for dim in shape):
            raise VerifyException(
                f"the constant has type {result_type}, but each of its dimensions needs a fixed size"
            )
        if isinstance(value, DenseIntOrFPElementsAttr) and len(value) != prod(shape):
            raise VerifyException(
                f"the constant has {len(value)} values, but type {result_type} needs {prod(shape)}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> AnyConstantOp:
        ir_type = parser.parse_type()
        parser.parse_punctuation("=")
        if parser.parse_optional_keyword("dense_resource") is not None:
            parser.parse_punctuation("<")
            key = parser.parse_identifier(context_msg=" for a resource")
            parser.parse_punctuation(">")
            return cls(DenseResourceAttr.from_params(key, ir_type))  # type: ignore[arg-type]
        parser.parse_keyword("dense")
        try:
            value = DenseIntOrFPElementsAttr.parse_with_type(parser, ir_type)
        except AssertionError:
            parser.raise_error(f"a constant cannot have type {ir_type}")
        assert isinstance(value, DenseIntOrFPElementsAttr)
        return cls(value)

    def print(self, printer: Printer) -> None:
        value = self.constant()
        printer.print_string(" ")
        printer.print_attribute(value.get_type())
        printer.print_string(" = ")
        if isinstance(value, DenseResourceAttr):
            printer.print_string(f"dense_resource<{value.resource_handle.data}>")
        else:
            value.print_without_type(printer)


class AnyBufferConstantOp(AnyConstantOp):
    """Base class of constant buffers at levels IERT and VPUIP."""

    def verify_(self) -> None:
        check_memrefs("output", [self.output.type])
        super().verify_()


class AnyViewOp(IRDLOperation):
    """Base class of views; a view is a buffer in another shape, or a part of a buffer.

    `%v = IERT.View %b : memref<2x3xf32> -> memref<6xf32>`
    """

    source = operand_def(base(MemRefType))
    result = result_def(base(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        check_view(self.source.type, self.result.type)


class AnyActualShapeOfOp(IRDLOperation):
    """Base class of ops that return the shape of a function input; the caller has stored this shape in memory.

    `%s = IERT.ActualShapeOf %t : memref<100x3xf16> -> memref<2xui32>`
    """

    source = operand_def(base(MemRefType))
    shape = result_def(base(MemRefType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($shape)"

    def __init__(self, source: SSAValue, shape: Attribute) -> None:
        super().__init__(operands=[source], result_types=[shape])


class AnyShapeOfOp(IRDLOperation):
    """Base class of ops that return the shape of a tensor as a value."""

    source = operand_def(AnyTensorTypeConstr)
    shape = result_def(ShapeType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($shape)"

    def __init__(self, source: SSAValue) -> None:
        super().__init__(operands=[source], result_types=[ShapeType()])


@irdl_op_definition
class ShapeOfOp(AnyShapeOfOp):
    """`%s = shape.shape_of %t : tensor<?x3xf16> -> !shape.shape`."""

    name = "shape.shape_of"


@irdl_attr_definition
class _OlderShapeType(ParametrizedAttribute, TypeAttribute):
    """`!shape.type`, which is read as `!shape.shape`."""

    name = "shape.type"

    @classmethod
    def new(cls, params: object) -> ShapeType:
        return ShapeType()


Shape = Dialect("shape", [ShapeOfOp], [ShapeType, _OlderShapeType])
