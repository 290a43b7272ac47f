"""Comparisons (EQUAL, LESS, ...), logical ops (LOGICAL_AND, ...), and SELECT_V2, which selects elements."""

from __future__ import annotations

from dataclasses import replace

from litert.core.element_type import ElementType
from vendor_reference.compiler.library.elementwise import Formula
from vendor_reference.compiler.library.library_op import WITH_SHORTS, PlacedOp
from vendor_reference.compiler.library.ops.expressions import NUMERIC, Expression

_BOOL = ElementType.BOOL


class _Comparison(Expression):
    """A comparison: operands of one type, and a BOOL result."""

    num_inputs = (2, 2)

    def __init__(self, name: str, ie_name: str, symbol: str, *more: ElementType) -> None:
        super().__init__(name, ie_name, f"a {symbol} b", (*NUMERIC, *more), quantized=())

    def type_mismatch(self, call: PlacedOp) -> str:
        """Same as for other ops, except for the result's type."""
        if call.result.element_type is not _BOOL:
            return f"the result has type {call.result.element_type.name}, expected BOOL"
        result = replace(call.result, element_type=call.inputs[0].element_type)
        return super().type_mismatch(replace(call, results=(result,)))

    def types_text(self) -> str:
        return f"operands: {super().types_text()}; result: bool"


class _Logical(Expression):
    """An expression of BOOL operands."""

    def __init__(self, name: str, ie_name: str, num_inputs: int, expression: str) -> None:
        super().__init__(name, ie_name, expression, (_BOOL,), quantized=())
        self.num_inputs = num_inputs, num_inputs


class _Select(Expression):
    """Elements of operand 1 where operand 0, BOOL, is true, and elements of operand 2 elsewhere."""

    num_inputs = (3, 3)
    constraints = ("all tensors must have the same scale and zero point",)

    def __init__(self, name: str, ie_name: str) -> None:
        super().__init__(name, ie_name, "b if a else c", (*NUMERIC, *WITH_SHORTS, _BOOL), ())

    def type_mismatch(self, call: PlacedOp) -> str:
        """Same as for other ops, except for the condition's type."""
        condition, *chosen = call.inputs
        if condition.element_type is not _BOOL:
            return f"the condition has type {condition.element_type.name}, expected BOOL"
        return super().type_mismatch(PlacedOp(tuple(chosen), call.results, {}))

    def mismatch(self, call: PlacedOp) -> str:
        if len({call.scale(index) for index in (1, 2, -1)}) > 1:
            return "the tensors of the op have different scales or zero points"
        return super().mismatch(call)

    def formula(self, call: PlacedOp) -> Formula:
        return super().formula(replace(call, attributes={}))  # integers stay unchanged


OPS = (
    _Comparison("EQUAL", "Equal", "==", _BOOL),
    _Comparison("NOT_EQUAL", "NotEqual", "!=", _BOOL),
    _Comparison("LESS", "Less", "<"),
    _Comparison("LESS_EQUAL", "LessEqual", "<="),
    _Comparison("GREATER", "Greater", ">"),
    _Comparison("GREATER_EQUAL", "GreaterEqual", ">="),
    _Logical("LOGICAL_AND", "LogicalAnd", 2, "a & b"),
    _Logical("LOGICAL_OR", "LogicalOr", 2, "a | b"),
    _Logical("LOGICAL_NOT", "LogicalNot", 1, "a == 0"),
    _Select("SELECT_V2", "Select"),
)
