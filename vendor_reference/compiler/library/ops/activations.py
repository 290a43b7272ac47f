"""RELU and its like, LOGISTIC, TANH, GELU, ...: one operand, and PRELU's slopes."""

from __future__ import annotations

from litert.model.graph import Op
from vendor_reference.compiler.define_text import define_text
from vendor_reference.compiler.library.builtin_op import Attributes, Call, option
from vendor_reference.compiler.library.ops.arithmetic import Binary
from vendor_reference.compiler.library.ops.functions import Unary
from vendor_reference.compiler.library.type_groups import BYTES, WITH_SHORTS


class _LeakyRelu(Unary):
    """Its slope below zero is an option."""

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), "alpha": float(option(op, "alpha"))}

    def mismatch(self, call: Call) -> str:
        if not isinstance(call.attributes.get("alpha"), float):
            return "its slope 'alpha' is not given"
        return super().mismatch(call)

    def expression(self, call: Call) -> str:
        alpha = call.attributes["alpha"]
        assert isinstance(alpha, float)
        return f"a < 0 ? a * {define_text(alpha)} : a"


class _Gelu(Unary):
    """Exact, or as its option says by a tangent."""

    def attributes(self, op: Op) -> Attributes:
        return {**super().attributes(op), "approximate": bool(option(op, "approximate"))}

    def expression(self, call: Call) -> str:
        if call.attributes.get("approximate"):
            return "0.5f * a * (1 + tanh(0.7978845608f * (a + 0.044715f * a * a * a)))"
        return super().expression(call)


OPS = (
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
    Binary("PRELU", "PReLU", "a < 0 ? a * b : a", integers=(), quantized=BYTES),
)
