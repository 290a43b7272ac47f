"""NEG, SQRT, RELU, GELU, ...: one operand, element by element. ADD, DIV, PRELU, ...: two, the smaller repeated."""

from __future__ import annotations

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


class Unary(LibraryOp):
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
        self.types = (*FLOATS, *INTEGERS) if integer_expression else FLOATS
        self.quantized = quantized
        self._expression = expression
        self._integer_expression = integer_expression

    def expression(self, call: PlacedOp) -> str:
        """The result, of a float `a`."""
        return self._expression

    def mismatch(self, call: PlacedOp) -> str:
        if reason := self.type_mismatch(call):
            return reason
        return "" if call.inputs[0].shape == call.result.shape else call.shape_mismatch()

    def kernel(self, call: PlacedOp) -> KernelSpec:
        compute = _COMPUTE.get(call.result.element_type, "float")
        expression = self.expression(call) if compute == "float" else self._integer_expression
        source, result = (
            KernelOperand(call.inputs[0], call.scale(0)),
            KernelOperand(call.result, call.scale(1)),
        )
        return elementwise_kernel(self.name, expression, compute, [source], result)


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


class Binary(LibraryOp):
    """An op that is an expression over `a` and `b`."""

    num_inputs = (2, 2)
    is_layout_agnostic = True
    is_elementwise = True

    def __init__(
        self,
        name: str,
        ie_name: str,
        expression: str,
        integers: tuple[ElementType, ...] = INTEGERS,
        quantized: tuple[ElementType, ...] = WITH_SHORTS,
        has_one_scale: bool = False,
        has_activation: bool = False,
    ) -> None:
        self.name = name
        self.ie_name = ie_name
        self.types = (*FLOATS, *integers)
        self.quantized = quantized
        self._expression = expression
        self._has_one_scale = has_one_scale
        self._activations = tuple(_ACTIVATIONS) if has_activation else ("NONE",)
        one_scale = ("one scale for all tensors",) if has_one_scale else ()
        activation = (f"fused activation {', '.join(self._activations)}",) if has_activation else ()
        self.constraints = (*one_scale, *activation)

    def attributes(self, op: Op) -> Attributes:
        attributes = dict(super().attributes(op))
        if len(self._activations) > 1 and activation_of(op) != "NONE":
            attributes[_ACTIVATION] = activation_of(op)
        return attributes

    def mismatch(self, call: PlacedOp) -> str:
        if reason := self.type_mismatch(call):
            return reason
        if self._has_one_scale and (reason := scale_mismatch(call)):
            return reason
        if broadcast_shape(call.inputs[0].shape, call.inputs[1].shape) != call.result.shape:
            return call.shape_mismatch()
        activation = call.attributes.get(_ACTIVATION, "NONE")
        return "" if activation in self._activations else f"its activation is {activation}"

    def kernel(self, call: PlacedOp) -> KernelSpec:
        activation = _ACTIVATIONS[str(call.attributes.get(_ACTIVATION, "NONE"))]
        operands = [
            KernelOperand(view.broadcast(call.result.shape), call.scale(index))
            for index, view in enumerate(call.inputs)
        ]
        compute = _COMPUTE.get(call.result.element_type, "float")
        expression, result = (
            activation.format(self._expression),
            KernelOperand(call.result, call.scale(-1)),
        )
        return elementwise_kernel(self.name, expression, compute, operands, result)


def broadcast_shape(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that two shapes are repeated to, by NumPy's rules; None where they do not fit."""
    rank = max(len(lhs), len(rhs))
    pairs = zip((1,) * (rank - len(lhs)) + lhs, (1,) * (rank - len(rhs)) + rhs, strict=True)
    shape = []
    for left, right in pairs:
        if left != right and 1 not in (left, right):
            return None
        shape.append(left if right == 1 else right)
    return tuple(shape)


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
    Binary("DIV", "Divide", "a / b", integers=(), quantized=(), has_activation=True),
    Binary("MAXIMUM", "Maximum", "a > b ? a : b", has_one_scale=True),
    Binary("MINIMUM", "Minimum", "a < b ? a : b", has_one_scale=True),
    Binary("SQUARED_DIFFERENCE", "SquaredDifference", "(a - b) * (a - b)", quantized=BYTES),
    Binary("PRELU", "PReLU", "a < 0 ? a * b : a", integers=(), quantized=BYTES),
)
