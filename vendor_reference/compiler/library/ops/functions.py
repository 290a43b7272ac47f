"""NEG, SQRT, EXP, ...: one operand, element by element."""

from __future__ import annotations

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.builtin_op import (
    Attributes,
    BuiltinOp,
    Call,
    quantization_attributes,
    type_mismatch,
)
from vendor_reference.compiler.library.elementwise import Operand, elementwise_kernel
from vendor_reference.compiler.library.type_groups import BYTES, FLOATS, INTEGERS, WITH_SHORTS

_E = ElementType


class Unary(BuiltinOp):
    """An op that is an expression over `a`."""

    is_layout_agnostic = True
    is_elementwise = True

    def __init__(
        self,
        name: str,
        ie_name: str,
        expression: str,
        integer_expression: str = "",
        quantized: tuple[ElementType, ...] = BYTES,
    ) -> None:
        """Without an `integer_expression` there are no plain integers."""
        self.name = name
        self.ie_name = ie_name
        self._expression = expression
        self._integer_expression = integer_expression
        self._quantized = quantized

    def attributes(self, op: Op) -> Attributes:
        return quantization_attributes([*self.operands(op), *op.outputs])

    def expression(self, call: Call) -> str:
        """The result, of a float `a`."""
        return self._expression

    def mismatch(self, call: Call) -> str:
        plain = (*FLOATS, *INTEGERS) if self._integer_expression else FLOATS
        if reason := type_mismatch(self.name, call, plain, self._quantized):
            return reason
        return "" if call.inputs[0].shape == call.result.shape else call.shape_mismatch()

    def kernel(self, call: Call) -> KernelSpec:
        compute = {_E.INT32: "int", _E.INT64: "long"}.get(call.result.element_type, "float")
        expression = self.expression(call) if compute == "float" else self._integer_expression
        return elementwise_kernel(
            self.name,
            expression,
            compute,
            [Operand(call.inputs[0], call.scale(0))],
            Operand(call.result, call.scale(1)),
        )


OPS = (
    Unary(
        "NEG", "Negative", "-a", "-a", quantized=()
    ),  # stock negates integers without their zero point
    Unary("ABS", "Abs", "fabs(a)", "a < 0 ? -a : a", quantized=WITH_SHORTS),
    Unary("SQUARE", "Square", "a * a"),
    Unary("SQRT", "Sqrt", "sqrt(a)"),
    Unary("RSQRT", "Rsqrt", "1 / sqrt(a)"),
    Unary("EXP", "Exp", "exp(a)"),
    Unary("LOG", "Log", "log(a)"),
    Unary("SIN", "Sin", "sin(a)"),
    Unary("COS", "Cos", "cos(a)"),
    Unary("FLOOR", "Floor", "floor(a)"),
    Unary("CEIL", "Ceiling", "ceil(a)"),
    Unary("ROUND", "Round", "rint(a)"),
)
