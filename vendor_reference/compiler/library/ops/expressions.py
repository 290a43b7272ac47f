"""Element-wise ops of one operand (NEG, SQRT, RELU, ...) and of two operands (ADD, DIV, PRELU, ...)."""

from __future__ import annotations

from math import isfinite

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.library.elementwise import Formula, KernelOperand
from vendor_reference.compiler.library.library_op import (
    BYTES,
    FLOATS,
    INTEGERS,
    WITH_SHORTS,
    Attributes,
    ElementwiseOp,
    PlacedOp,
    activation_of,
    broadcast_mismatch,
    option,
    scale_mismatch,
)

NUMERIC = (*FLOATS, *INTEGERS)

_ACTIVATION = "activation"
_ACTIVATIONS = {
    "NONE": "{}",
    "RELU": "max(0, {})",
    "RELU_N1_TO_1": "min(1, max(-1, {}))",
    "RELU6": "min(6, max(0, {}))",
}


class Expression(ElementwiseOp):
    """An op that computes an expression of its operands, `a`, `b`, ...; smaller operands are broadcast."""

    has_one_scale = False

    def __init__(
        self,
        name: str,
        ie_name: str,
        expression: str,
        types: tuple[ElementType, ...] = FLOATS,
        quantized: tuple[ElementType, ...] = BYTES,
    ) -> None:
        """Makes an op with the same expression for all types.

        Integers of the types in `quantized` represent real numbers.
        """
        self.name = name
        self.ie_name = ie_name
        self.types = types
        self.quantized = quantized
        self._expression = expression

    def expression(self, call: PlacedOp) -> str:
        """Returns the expression of the result for operands of the op's types."""
        return self._expression

    def mismatch(self, call: PlacedOp) -> str:
        if reason := self.type_mismatch(call):
            return reason
        if self.has_one_scale and (reason := scale_mismatch(call)):
            return reason
        return broadcast_mismatch(call)

    def formula(self, call: PlacedOp) -> Formula:
        operands = [
            KernelOperand(view.broadcast(call.result.shape), call.scale(index))
            for index, view in enumerate(call.inputs)
        ]
        result = KernelOperand(call.result, call.scale(-1))
        return Formula(self.expression(call), operands, result)


class Unary(Expression):
    """An op that computes an expression of one operand, `a`."""


class _LeakyRelu(Unary):
    """LEAKY_RELU: an option gives the slope below zero."""

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), "alpha": float(option(op, "alpha"))}

    def mismatch(self, call: PlacedOp) -> str:
        alpha = call.attributes.get("alpha")
        if not isinstance(alpha, float) or not isfinite(alpha):
            return "the slope 'alpha' is not a finite number"
        return super().mismatch(call)

    def expression(self, call: PlacedOp) -> str:
        return f"prelu(a, {call.attributes['alpha']!r})"


class _Gelu(Unary):
    """GELU: exact, or approximated by a tangent if the op's option says so."""

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), "approximate": bool(option(op, "approximate"))}

    def expression(self, call: PlacedOp) -> str:
        if call.attributes.get("approximate"):
            return "0.5 * a * (1 + tanh(0.7978845608 * (a + 0.044715 * a * a * a)))"
        return super().expression(call)


class Binary(Expression):
    """An op that computes an expression of two operands, `a` and `b`."""

    num_inputs = (2, 2)

    def __init__(
        self,
        name: str,
        ie_name: str,
        expression: str,
        types: tuple[ElementType, ...] = NUMERIC,
        quantized: tuple[ElementType, ...] = WITH_SHORTS,
        has_one_scale: bool = False,
        has_activation: bool = False,
    ) -> None:
        super().__init__(name, ie_name, expression, types, quantized)
        self.has_one_scale = has_one_scale
        self._activations = tuple(_ACTIVATIONS) if has_activation else ("NONE",)
        one_scale = (
            ("all tensors must have the same scale and zero point",) if has_one_scale else ()
        )
        *most, last = self._activations
        activation = f"the fused activation must be {', '.join(most)} or {last}"
        self.constraints = (*one_scale, *((activation,) if has_activation else ()))

    def attributes(self, op: Op) -> Attributes:
        attributes = dict(super().attributes(op))
        if len(self._activations) > 1 and activation_of(op) != "NONE":
            attributes[_ACTIVATION] = activation_of(op)
        return attributes

    def expression(self, call: PlacedOp) -> str:
        activation = _ACTIVATIONS[str(call.attributes.get(_ACTIVATION, "NONE"))]
        return activation.format(super().expression(call))

    def mismatch(self, call: PlacedOp) -> str:
        if reason := super().mismatch(call):
            return reason
        activation = call.attributes.get(_ACTIVATION, "NONE")
        return (
            ""
            if activation in self._activations
            else f"fused activation {activation} is not supported"
        )


OPS = (
    # Stock LiteRT negates integers without their zero point.
    Unary("NEG", "Negative", "-a", NUMERIC, quantized=()),
    Unary("ABS", "Abs", "abs(a)", NUMERIC, WITH_SHORTS),
    Unary("SQUARE", "Square", "a * a"),
    Unary("SQRT", "Sqrt", "sqrt(a)"),
    Unary("RSQRT", "Rsqrt", "rsqrt(a)"),
    Unary("EXP", "Exp", "exp(a)"),
    Unary("LOG", "Log", "log(a)"),
    Unary("SIN", "Sin", "sin(a)"),
    Unary("COS", "Cos", "cos(a)"),
    Unary("FLOOR", "Floor", "floor(a)"),
    Unary("CEIL", "Ceiling", "ceil(a)"),
    Unary("ROUND", "Round", "round(a)"),
    # This form keeps NaN: `max(0, a)` is `a` unless 0 is greater.
    Unary("RELU", "ReLU", "max(0, a)", quantized=WITH_SHORTS),
    Unary("RELU6", "ReLU6", "min(6, max(0, a))", quantized=WITH_SHORTS),
    Unary("RELU_N1_TO_1", "ReLUN1To1", "min(1, max(-1, a))"),
    Unary("RELU_0_TO_1", "ReLU0To1", "min(1, max(0, a))"),
    Unary("ELU", "Elu", "expm1(a) if a < 0 else a"),
    Unary("HARD_SWISH", "HSwish", "hard_swish(a)"),
    Unary("LOGISTIC", "Sigmoid", "logistic(a)"),
    Unary("TANH", "Tanh", "tanh(a)"),
    _LeakyRelu("LEAKY_RELU", "LeakyReLU", "", quantized=WITH_SHORTS),
    _Gelu("GELU", "Gelu", "0.5 * a * erfc(-0.7071067812 * a)"),  # `1 + erf` would lose the tail
    Binary("ADD", "Add", "a + b", has_activation=True),
    Binary("SUB", "Subtract", "a - b", has_activation=True),
    Binary("MUL", "Multiply", "a * b", has_activation=True),
    # For a division of integers by zero, stock LiteRT's interpreter ends the run with an error; the
    # NPU cannot.
    Binary("DIV", "Divide", "a / b", FLOATS, quantized=(), has_activation=True),
    Binary("MAXIMUM", "Maximum", "max(a, b)", has_one_scale=True),
    Binary("MINIMUM", "Minimum", "min(a, b)", has_one_scale=True),
    Binary("SQUARED_DIFFERENCE", "SquaredDifference", "(a - b) * (a - b)", quantized=BYTES),
    Binary("PRELU", "PReLU", "prelu(a, b)", FLOATS, quantized=BYTES),
    Binary("POW", "Power", "pow(a, b)", FLOATS, quantized=()),
)
