"""NEG, SQRT, RELU, GELU, ...: one operand, element by element. ADD, DIV, PRELU, ...: two, the smaller repeated."""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.library.elementwise import KernelOperand, elementwise_kernel
from vendor_reference.compiler.library.library_op import (
    BYTES,
    FLOATS,
    INTEGERS,
    WITH_SHORTS,
    Attributes,
    LibraryOp,
    PlacedOp,
    activation_of,
    option,
    scale_mismatch,
)
from vendor_reference.compiler.simplegpu_defines import define_text
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_COMPUTE = {ElementType.INT32: "int", ElementType.INT64: "long"}
"""What is computed in these types; all else is float."""

_ACTIVATION = "activation"
_ACTIVATIONS = {
    "NONE": "{}",
    "RELU": "({0}) < 0 ? 0 : ({0})",
    "RELU_N1_TO_1": "({0}) < -1 ? -1 : ({0}) > 1 ? 1 : ({0})",
    "RELU6": "({0}) < 0 ? 0 : ({0}) > 6 ? 6 : ({0})",
}


class _Expression(LibraryOp):
    """An op that is an expression over its operands, `a` and `b`; the smaller one is repeated."""

    is_layout_agnostic = True
    is_elementwise = True
    has_one_scale = False

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
        self.types = (*FLOATS, *INTEGERS) if integer_expression else FLOATS
        self.quantized = quantized
        self._expression = expression
        self._integer_expression = integer_expression

    def expression(self, call: PlacedOp) -> str:
        """The result, of operands of the types that the op has."""
        is_integer = call.result.element_type in _COMPUTE
        return self._integer_expression if is_integer else self._expression

    def mismatch(self, call: PlacedOp) -> str:
        if reason := self.type_mismatch(call):
            return reason
        if self.has_one_scale and (reason := scale_mismatch(call)):
            return reason
        fits = broadcast_shape([view.shape for view in call.inputs]) == call.result.shape
        return "" if fits else call.shape_mismatch()

    def kernel(self, call: PlacedOp) -> KernelSpec:
        compute = _COMPUTE.get(call.result.element_type, "float")
        operands = [
            KernelOperand(view.broadcast(call.result.shape), call.scale(index))
            for index, view in enumerate(call.inputs)
        ]
        result = KernelOperand(call.result, call.scale(-1))
        return elementwise_kernel(self.name, self.expression(call), compute, operands, result)


class Unary(_Expression):
    """An op that is an expression over `a`."""


class _LeakyRelu(Unary):
    """Its slope below zero is an option."""

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), "alpha": float(option(op, "alpha"))}

    def mismatch(self, call: PlacedOp) -> str:
        if not isinstance(call.attributes.get("alpha"), float):
            return "its slope 'alpha' is not given"
        return super().mismatch(call)

    def expression(self, call: PlacedOp) -> str:
        alpha = call.attributes["alpha"]
        assert isinstance(alpha, float)
        return f"a < 0 ? a * {define_text(alpha)} : a"


class _Gelu(Unary):
    """Exact, or as its option says by a tangent."""

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), "approximate": bool(option(op, "approximate"))}

    def expression(self, call: PlacedOp) -> str:
        if call.attributes.get("approximate"):
            return "0.5f * a * (1 + tanh(0.7978845608f * (a + 0.044715f * a * a * a)))"
        return super().expression(call)


class Binary(_Expression):
    """An op that is an expression over `a` and `b`."""

    num_inputs = (2, 2)

    def __init__(
        self,
        name: str,
        ie_name: str,
        expression: str,
        has_integers: bool = True,
        quantized: tuple[ElementType, ...] = WITH_SHORTS,
        has_one_scale: bool = False,
        has_activation: bool = False,
    ) -> None:
        super().__init__(name, ie_name, expression, expression if has_integers else "", quantized)
        self.has_one_scale = has_one_scale
        self._activations = tuple(_ACTIVATIONS) if has_activation else ("NONE",)
        one_scale = ("one scale for all tensors",) if has_one_scale else ()
        activation = (f"fused activation {', '.join(self._activations)}",) if has_activation else ()
        self.constraints = (*one_scale, *activation)

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
        return "" if activation in self._activations else f"its activation is {activation}"


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape that shapes are repeated to, by NumPy's rules; None where they do not fit."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    sizes = [set(column) - {1} for column in zip(*padded, strict=True)]
    fits = all(len(size) <= 1 for size in sizes)
    return tuple(min(size, default=1) for size in sizes) if fits else None


OPS = (
    # Stock negates integers without their zero point.
    Unary("NEG", "Negative", "-a", "-a", quantized=()),
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
    # So written, what is not a number stays that.
    Unary("RELU", "ReLU", "a < 0 ? 0 : a", quantized=WITH_SHORTS),
    Unary("RELU6", "ReLU6", "a < 0 ? 0 : a > 6 ? 6 : a", quantized=WITH_SHORTS),
    Unary("RELU_N1_TO_1", "ReLUN1To1", "a < -1 ? -1 : a > 1 ? 1 : a"),
    Unary("RELU_0_TO_1", "ReLU0To1", "a < 0 ? 0 : a > 1 ? 1 : a"),
    Unary("ELU", "Elu", "a < 0 ? expm1(a) : a"),
    Unary("HARD_SWISH", "HSwish", "a * clamp(a + 3, 0.0f, 6.0f) / 6"),
    Unary("LOGISTIC", "Sigmoid", "1 / (1 + exp(-a))"),
    Unary("TANH", "Tanh", "tanh(a)"),
    _LeakyRelu("LEAKY_RELU", "LeakyReLU", "", quantized=WITH_SHORTS),
    _Gelu("GELU", "Gelu", "0.5f * a * erfc(-0.7071067812f * a)"),  # `1 + erf` loses the tail
    Binary("ADD", "Add", "a + b", has_activation=True),
    Binary("SUB", "Subtract", "a - b", has_activation=True),
    Binary("MUL", "Multiply", "a * b", has_activation=True),
    # Where integers are divided by zero, stock's interpreter ends the run with an error; a kernel cannot.
    Binary("DIV", "Divide", "a / b", has_integers=False, quantized=(), has_activation=True),
    Binary("MAXIMUM", "Maximum", "a > b ? a : b", has_one_scale=True),
    Binary("MINIMUM", "Minimum", "a < b ? a : b", has_one_scale=True),
    Binary("SQUARED_DIFFERENCE", "SquaredDifference", "(a - b) * (a - b)", quantized=BYTES),
    Binary("PRELU", "PReLU", "a < 0 ? a * b : a", has_integers=False, quantized=BYTES),
)
