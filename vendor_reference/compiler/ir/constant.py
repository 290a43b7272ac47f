"""What constants are on all levels: a value in the text, or the key of one that lies in a table beside the module.

    %w = IE.Constant tensor<2xf32> = dense<[1.0, 2.0]>
    %w = IERT.Constant memref<2xf32> = dense_resource<constant_0>

A model's weights are resources: the IR never copies them.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr
from xdsl.irdl import IRDLOperation, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ir.types import shape_of

ConstantValue: TypeAlias = DenseIntOrFPElementsAttr[Any] | DenseResourceAttr


class AnyConstantOp(IRDLOperation):
    """A constant of any level, in row order."""

    value = prop_def()
    output = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: ConstantValue) -> None:
        super().__init__(properties={"value": value}, result_types=[value.get_type()])

    def constant(self) -> ConstantValue:
        """Its value, which a verifier has seen."""
        assert isinstance(self.value, (DenseIntOrFPElementsAttr, DenseResourceAttr))
        return self.value

    def key(self) -> str:
        """Of its resource; "" for a value in the text."""
        value = self.value
        return value.resource_handle.data if isinstance(value, DenseResourceAttr) else ""

    def verify_(self) -> None:
        value, result_type = self.value, self.output.type
        if not isinstance(value, (DenseIntOrFPElementsAttr, DenseResourceAttr)):
            raise VerifyException(
                f"a constant's value is {value}, expected dense or dense_resource"
            )
        if value.get_type() != result_type:
            raise VerifyException(f"a value of type {value.get_type()} as {result_type}")
        shape = shape_of(result_type)
        if any(dim < 0 for dim in shape):
            raise VerifyException(f"a constant of unknown shape: {result_type}")
        if isinstance(value, DenseIntOrFPElementsAttr) and len(value) != prod(shape):
            raise VerifyException(f"{len(value)} values in a constant of type {result_type}")

    @classmethod
    def parse(cls, parser: Parser) -> AnyConstantOp:
        ir_type = parser.parse_type()
        parser.parse_punctuation("=")
        if parser.parse_optional_keyword("dense_resource") is not None:
            parser.parse_punctuation("<")
            key = parser.parse_identifier(" for a resource")
            parser.parse_punctuation(">")
            return cls(DenseResourceAttr.from_params(key, ir_type))  # type: ignore[arg-type]
        parser.parse_keyword("dense")
        try:
            value = DenseIntOrFPElementsAttr.parse_with_type(parser, ir_type)
        except AssertionError:
            parser.raise_error(f"no constant can be of type {ir_type}")
        assert isinstance(value, DenseIntOrFPElementsAttr)
        return cls(value)

    def print(self, printer: Printer) -> None:
        value = self.value
        assert isinstance(value, (DenseIntOrFPElementsAttr, DenseResourceAttr))
        printer.print_string(" ")
        printer.print_attribute(value.get_type())
        printer.print_string(" = ")
        if isinstance(value, DenseResourceAttr):
            printer.print_string(f"dense_resource<{value.resource_handle.data}>")
        else:
            value.print_without_type(printer)
