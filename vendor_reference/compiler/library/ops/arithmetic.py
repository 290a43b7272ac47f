"""ADD, SUB, MUL, DIV, ...: two operands, element by element, the smaller repeated."""

from __future__ import annotations

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.builtin_op import (
    Attributes,
    BuiltinOp,
    Call,
    activation_of,
    quantization_attributes,
    scale_mismatch,
    type_mismatch,
)
from vendor_reference.compiler.library.elementwise import Operand, elementwise_kernel
from vendor_reference.compiler.library.type_groups import BYTES, FLOATS, INTEGERS, WITH_SHORTS

_E = ElementType
_COMPUTE = {_E.INT32: "int", _E.INT64: "long"}

_ACTIVATION = "activation"
_ACTIVATIONS = {
    "NONE": "{}",
    "RELU": "({0}) < 0 ? 0 : ({0})",
    "RELU_N1_TO_1": "({0}) < -1 ? -1 : ({0}) > 1 ? 1 : ({0})",
    "RELU6": "({0}) < 0 ? 0 : ({0}) > 6 ? 6 : ({0})",
}


class Binary(BuiltinOp):
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
        self._expression = expression
        self._integers = integers
        self._quantized = quantized
        self._has_one_scale = has_one_scale
        self._has_activation = has_activation

    def attributes(self, op: Op) -> Attributes:
        attributes = dict(quantization_attributes([*self.operands(op), *op.outputs]))
        if self._has_activation and activation_of(op) != "NONE":
            attributes[_ACTIVATION] = activation_of(op)
        return attributes

    def mismatch(self, call: Call) -> str:
        plain = (*FLOATS, *self._integers)
        if reason := type_mismatch(self.name, call, plain, self._quantized):
            return reason
        if self._has_one_scale and (reason := scale_mismatch(call)):
            return reason
        if broadcast_shape(call.inputs[0].shape, call.inputs[1].shape) != call.result.shape:
            return call.shape_mismatch()
        activation = call.attributes.get(_ACTIVATION, "NONE")
        allowed = _ACTIVATIONS if self._has_activation else ("NONE",)
        return "" if activation in allowed else f"its activation is {activation}"

    def kernel(self, call: Call) -> KernelSpec:
        activation = _ACTIVATIONS[str(call.attributes.get(_ACTIVATION, "NONE"))]
        return elementwise_kernel(
            self.name,
            activation.format(self._expression),
            _COMPUTE.get(call.result.element_type, "float"),
            [
                Operand(view.broadcast(call.result.shape), call.scale(index))
                for index, view in enumerate(call.inputs)
            ],
            Operand(call.result, call.scale(-1)),
        )


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
    Binary("ADD", "Add", "a + b", has_activation=True),
    Binary("SUB", "Subtract", "a - b", has_activation=True),
    Binary("MUL", "Multiply", "a * b", has_activation=True),
    # Where integers are divided by zero, stock's interpreter ends the run with an error; a kernel cannot.
    Binary("DIV", "Divide", "a / b", integers=(), quantized=(), has_activation=True),
    Binary("MAXIMUM", "Maximum", "a > b ? a : b", has_one_scale=True),
    Binary("MINIMUM", "Minimum", "a < b ? a : b", has_one_scale=True),
    Binary("SQUARED_DIFFERENCE", "SquaredDifference", "(a - b) * (a - b)", quantized=BYTES),
)
